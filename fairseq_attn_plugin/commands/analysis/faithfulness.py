"""Measures whether the attention of a translation model tells what its predictions depend on.

    fairseq-attn faithfulness DATA --path CHECKPOINT --sentences 100 --out soft.json
    fairseq-attn faithfulness DATA --path HAN --documents --out han.json

For every target word, with the references forced (with ``--beam``, the model's own translation): Kendall's tau and
Jensen-Shannon divergence of attention and other attributions, the change of p(y_t) when the words most attended to are
taken out, and what other weights lead to the same prediction. One batch of sentences is in memory at a time.
"""

import argparse
from itertools import islice
from typing import Any, Dict, Iterator, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.inference.attention_file import default_name
from fairseq_attn_plugin.analysis.inference.attributions import METHODS
from fairseq_attn_plugin.analysis.inference.classification import load_classifier, split_samples
from fairseq_attn_plugin.analysis.inference.extraction import Extraction
from fairseq_attn_plugin.analysis.inference.faithfulness import Means, Measuring, document_faithfulness, faithfulness
from fairseq_attn_plugin.analysis.inference.loading import load_from_options
from fairseq_attn_plugin.analysis.inference.model_options import add_model_options
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.analysis.pages.document import plain_table
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least, parse_overrides
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import check_output, write_json

DEFAULTS = Measuring()


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", help="folder of fairseq-preprocess, model folder, or checkpoint")
    add_model_options(parser)
    add("--gen-subset", default="test", metavar="SPLIT", help="split of the data (default: test)")
    add("--sentences", type=int, metavar="N", help="only the first N sentences of the split (default: all)")
    add("--beam", type=int, metavar="N", help="translate by beam search (default: force the reference)")
    add("--documents", action="store_true", help="the model classifies documents: words and sentences of han, han_flat")
    add("--name", help="system name (default: the checkpoint's folder)")
    add("--out", metavar="FILE", help="JSON file to write")
    group = parser.add_argument_group("attributions that the attention is compared with, and erasing")
    group.add_argument(
        "--attribution",
        nargs="+",
        choices=list(METHODS),
        default=list(DEFAULTS.methods),
        metavar="METHOD",
        help=f"some of {', '.join(METHODS)} (default: all except saliency)",
    )
    group.add_argument(
        "--top", type=int, nargs="+", default=list(DEFAULTS.top), metavar="K", help="words to erase (default: 1 3)"
    )
    add("--seed", type=int, default=1, metavar="N", help="of everything random (default: 1)")
    add("--max-tokens", type=int, default=4000, metavar="N", help="subwords in a batch (default: 4000)")


def run(args: argparse.Namespace) -> None:
    at_least(args, sentences=1, beam=1, seed=0, max_tokens=1)
    if min(args.top) < 1:
        raise OptionError(f"--top {min(args.top)}: must be at least 1")
    methods, top = tuple(dict.fromkeys(args.attribution)), tuple(sorted(set(args.top)))
    options = Measuring(methods, top, seed=args.seed, max_tokens=args.max_tokens)
    check_output("--out", args.out, ())
    done, measures = 0, Means()
    with tqdm(unit=" sentences", disable=None) as bar:
        for count, found in (_documents if args.documents else _translations)(args, options):
            measures = found
            bar.update(count)
            done += count
    if not done:
        raise OptionError(f"--gen-subset {args.gen_subset}: all sentences are longer than the model allows")
    result: Dict[str, Any] = {
        "name": args.name or default_name(args.path),
        "checkpoint": args.path,
        "split": args.gen_subset,
        "target": "reference" if args.beam is None else f"beam {args.beam}",
        "sentences": done,
        "words": measures.counts["probability"],
        "options": options._asdict(),
        "measures": measures.as_dict(),
    }
    if args.out:
        write_json("--out", args.out, result)
    rows = [[name, f"{value:.3f}"] for name, value in result["measures"].items()]
    print(plain_table(["measure", result["name"]], rows, "lr"))
    words = f"{counted(done, 'sentence')}, {counted(result['words'], 'target subword')}, ends included"
    print(counted(done, "document") if args.documents else words)
    if not args.documents and "variation uniform" not in result["measures"]:
        print("other weights were not tried: that needs one model of this package with attention, not of first order")


def _translations(args: argparse.Namespace, options: Measuring) -> Iterator[Tuple[int, Means]]:
    loaded = load_from_options(args)
    corpus = SplitSentences(loaded, args.gen_subset, references=args.beam is None)
    extraction = Extraction(beam=args.beam, max_tokens=args.max_tokens)
    return faithfulness(loaded, lambda start: islice(corpus(start), args.sentences), options, extraction)


def _documents(args: argparse.Namespace, options: Measuring) -> Iterator[Tuple[int, Means]]:
    if args.beam is not None:
        raise OptionError(f"--beam {args.beam}: --documents translates nothing; leave one of the two out")
    if args.path is None:
        raise OptionError("--documents: give the checkpoint of han or han_flat by --path")
    classifier = load_classifier(args.data, args.path, args.cpu, parse_overrides(args.model_overrides))
    return document_faithfulness(
        classifier, islice(split_samples(classifier, args.gen_subset), args.sentences), options
    )
