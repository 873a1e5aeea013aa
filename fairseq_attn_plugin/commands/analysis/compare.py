"""``fairseq-attn compare``: outputs of systems side by side, with the words that differ from the reference.

    fairseq-attn compare soft=soft/test.out mqt=mqt/test.out --source test.de --reference test.en --sort difference

The command prints Markdown, or writes a page to ``--out``.
"""

import argparse
import sys

from fairseq_attn_plugin.analysis.folders import (
    add_sentence_options,
    folder_of_test,
    sentence_numbers,
    with_translations,
)
from fairseq_attn_plugin.analysis.outputs.comparison import METRICS, SORTS, TOKENIZERS, add_comparison, as_html, compare
from fairseq_attn_plugin.analysis.outputs.reading import (
    check_lengths,
    check_tokenisation,
    read_reference,
    read_source,
    read_systems,
)
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.analysis.pages.frame import check_page
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output, whole_text

FIRST_PRINTED, FIRST_WRITTEN = 10, 200


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "outputs",
        nargs="+",
        metavar="[LABEL=]FILE",
        help="text, output of fairseq-generate, extracted attention, or model folder",
    )
    parser.add_argument("--reference", metavar="FILE", help="reference translations (default: those of a model folder)")
    parser.add_argument("--source", metavar="FILE", help="source sentences")
    parser.add_argument("--sort", choices=SORTS, default="order", help="which sentences come first (default: order)")
    parser.add_argument("--metric", choices=METRICS, help="the score to sort by (default: bleu)")
    add_sentence_options(parser, f"{FIRST_PRINTED}, in a file {FIRST_WRITTEN}")
    parser.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        help="sacrebleu's tokenizer, for BLEU and for the marks; none: split at blanks (default: none, or that of "
        "a model folder's own BLEU)",
    )
    parser.add_argument("--out", metavar="FILE.html", help="page to write (default: print Markdown)")


def run(args: argparse.Namespace) -> None:
    numbers = sentence_numbers(args.sentences)
    at_least(args, first=0)
    if args.metric and args.sort == "order":
        raise OptionError(f"--metric {args.metric}: needs --sort, which goes by it")
    if args.out:
        check_page("--out", args.out)
    model = folder_of_test(args.outputs)
    if args.reference is None and model is None:
        raise OptionError("--reference: is missing; give the reference translations")
    if model is not None and args.reference is None:
        args.reference, args.source = str(model.test_file("reference")), args.source or str(model.test_file("source"))
    args.outputs = with_translations(args.outputs)
    args.tokenize = args.tokenize or (model.bleu_tokenizer if model else "none")
    check_output("--out", args.out, [args.reference, args.source, *args.outputs])
    first = args.first
    if first is None:
        first = 0 if numbers is not None else FIRST_WRITTEN if args.out else FIRST_PRINTED
    systems = read_systems(args.outputs)
    if args.sort == "difference" and len(systems) == 1:
        raise OptionError("--sort difference: needs the outputs of two systems")
    reference = read_reference(args.reference)
    source = None if args.source is None else read_source(args.source)
    named = {f"--reference {args.reference}": reference, **systems}
    check_lengths({**named, **({} if source is None else {f"--source {args.source}": source})})
    check_tokenisation(named, stops=args.tokenize == "none")  # a tokenizer of sacrebleu splits them off
    comparison = compare(systems, reference, source, args.sort, args.metric or "bleu", numbers, first, args.tokenize)
    if not args.out:
        document = Document("Outputs compared")
        add_comparison(document, comparison)
        sys.stdout.write(document.markdown(""))
    else:
        with whole_text(args.out, f"--out {args.out}: cannot be written") as stream:
            stream.write(as_html(comparison))
        print(f"{args.out}: {counted(len(comparison.sentences), 'sentence')}")
    left = comparison.total - len(comparison.sentences)
    if numbers is None and left:
        sys.stderr.write(f"{left} of {counted(comparison.total, 'sentence')} not shown; --first 0 shows all of them\n")
