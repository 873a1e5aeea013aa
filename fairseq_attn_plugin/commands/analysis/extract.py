"""Writes the attention of a model for every sentence of a corpus to a file.

    fairseq-attn extract DATA --path CHECKPOINT --gen-subset test --out soft.jsonl
    fairseq-attn extract DATA --path CHECKPOINT --beam 5 --out soft.beam.jsonl
    fairseq-attn extract DATA --path CHECKPOINT --source-text new.de --bpe-codes codes --beam 5 --out new.jsonl

Without ``--beam`` the reference is forced, with ``--beam`` the model's own translation. The corpus is a split of DATA,
or a text given by ``--source-text``, which ``--tokenizer``, ``--bpe-codes`` and so on prepare.

Memory does not grow with the corpus. An interrupted command resumes when it is given again with the same
options.
"""

import argparse
from typing import Any

from fairseq_attn_plugin.analysis.alignment.linking import METHODS
from fairseq_attn_plugin.analysis.inference.attention_file import describe_extraction, extract_file, text_sentences
from fairseq_attn_plugin.analysis.inference.extraction import Extraction
from fairseq_attn_plugin.analysis.inference.loading import load_from_options
from fairseq_attn_plugin.analysis.inference.model_options import add_model_options
from fairseq_attn_plugin.analysis.inference.segmenter import add_text_options, text_options
from fairseq_attn_plugin.analysis.inference.sentences import MANY_UNKNOWN, SplitSentences
from fairseq_attn_plugin.decoding.options import DecodingOptions, add_decoding_options
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least, check_unread
from fairseq_attn_plugin.ranges import check_search
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="folder of fairseq-preprocess, model folder, or checkpoint")
    add_model_options(parser)
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write, .jsonl")
    parser.add_argument("--name", help="system name for legends and tables (default: the checkpoint's folder)")
    parser.add_argument("--gen-subset", metavar="SPLIT", help="split of the data (default: test)")
    parser.add_argument("--source-text", metavar="FILE", help="text instead of a split, one sentence in each line")
    parser.add_argument("--target-text", metavar="FILE", help="translation of --source-text")
    parser.add_argument("--beam", type=int, metavar="N", help="translate by beam search (default: force the reference)")
    parser.add_argument("--lenpen", type=float, default=1.0, help="with --beam: length penalty, as in fairseq-generate")
    parser.add_argument(
        "--matrices",
        nargs="+",
        choices=[matrix for matrix in METHODS.values() if matrix is not None],
        default=[],
        help="matrices of fairseq-attn align to write beside the attention: bayes (posterior), saliency, loo",
    )
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="subwords in a batch (default: 4000)")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace FILE, and what an extraction with other options has begun"
    )
    add_decoding_options(parser)
    add_text_options(parser)


def run(args: argparse.Namespace) -> None:
    _check(args)
    loaded = load_from_options(args)
    sentences: Any
    preparation, files = {}, []
    if args.source_text:
        preparation = {key: value for key, value in text_options(args).items() if value}
        files = [file for file in (args.bpe_codes, args.sentencepiece_model) if file]
        sentences = text_sentences(loaded, args.source_text, args.target_text, args)
    else:
        sentences = SplitSentences(loaded, args.gen_subset or "test", references=args.beam is None)
    # the lengths are those of the header of earlier versions, which could be chosen
    search = {"lenpen": args.lenpen, "max_len_a": 0.0, "max_len_b": 200, **DecodingOptions.of(args).changed()}
    search = {} if args.beam is None else search
    extraction = Extraction(args.beam, search, args.max_tokens, tuple(dict.fromkeys(args.matrices)))
    header = describe_extraction(loaded, sentences, extraction, args.name, preparation, files)
    done = extract_file(loaded, sentences, args.out, header, extraction, "replace" if args.overwrite else "keep")
    if done.complete:
        print(f"{args.out}: is complete already; give --overwrite to extract it again")
        return
    print(
        f"{args.out}: attention of {header.name} ({', '.join(header.weights)}) for {counted(done.written, 'sentence')}"
        + (f", {done.resumed} of them from an interrupted run" if done.resumed else "")
        + (f"; {done.left_out} longer than the model allows are left out" if done.left_out else "")
    )
    if args.source_text and sentences.unknown > MANY_UNKNOWN * sentences.tokens:
        print(
            f"{sentences.unknown} of {sentences.tokens} source tokens are not in the vocabulary: prepare the text as "
            "for training (--tokenizer, --bpe-codes, --sentencepiece-model, --case)"
        )


def _check(args: argparse.Namespace) -> None:
    at_least(args, max_tokens=1)
    check_search(argparse.Namespace(**{name: value for name, value in vars(args).items() if value is not None}))
    if args.target_text and not args.source_text:
        raise OptionError(f"--target-text {args.target_text}: needs --source-text, which it translates")
    if not args.source_text:
        check_unread(args, "needs --source-text FILE, which it prepares", add_text_options)
    if args.source_text and args.gen_subset:
        raise OptionError(f"--gen-subset {args.gen_subset} and --source-text {args.source_text}: choose one of the two")
    if args.source_text and not args.target_text and args.beam is None:
        raise OptionError(f"--source-text {args.source_text}: needs --target-text, or --beam N to translate it")
    if args.beam is None:
        DecodingOptions.of(args).check_unused("without --beam nothing is translated")
        if args.lenpen != 1:
            raise OptionError(f"--lenpen {args.lenpen}: without --beam nothing is translated; leave it out")
    check_output("--out", args.out, [args.source_text, args.target_text])
