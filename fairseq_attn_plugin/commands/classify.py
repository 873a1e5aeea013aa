"""Classifies documents with a trained model and shows the words and sentences that decided.

    fairseq-attn classify DATA --path CHECKPOINT --input reviews.jsonl --out classes.jsonl
    fairseq-attn classify DATA --path CHECKPOINT --gen-subset test --plot page.html

Each line of the output describes one document: its label and probability, the probabilities of all labels, the words
with their weights, and the weights of the sentences. The word weights of a sentence sum to one. A flat model has no
sentence weights, and its word weights sum to one over the document. Documents are processed one batch at a time.
"""

import argparse
import contextlib
import json
import os
import sys
from dataclasses import asdict
from typing import Any

from tqdm import tqdm

from fairseq_attn_plugin.analysis.drawing.document_page import draw_documents
from fairseq_attn_plugin.analysis.folders import sentence_numbers
from fairseq_attn_plugin.analysis.inference.classification import (
    ClassificationScores,
    classify,
    load_classifier,
    split_samples,
    text_samples,
)
from fairseq_attn_plugin.analysis.inference.model_options import add_user_dir_option
from fairseq_attn_plugin.analysis.pages.frame import check_page
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least, check_unread
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.documents import documents_of
from fairseq_attn_plugin.text.reading import add_reading_options, reading_from
from fairseq_attn_plugin.writing import check_output, whole_text, write_json


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("data", help="folder with the dictionaries, input0/dict.txt and label/dict.txt")
    add("--path", required=True, metavar="FILE", help="checkpoint of han, han_flat or han_mean")
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--input", metavar="FILE", help="documents as JSONL, text or .csv, with or without labels")
    source.add_argument("--gen-subset", metavar="SPLIT", help="binarised split of the data folder")
    add(
        "--out",
        metavar="FILE",
        help="JSONL file to write (default: standard output, unless it is a terminal and --plot is given)",
    )
    add("--scores", metavar="FILE", help="JSON file for accuracy, macro-F1, loss and confusion matrix")
    add("--plot", metavar="FILE.html", help="page to draw")
    add(
        "--documents",
        nargs="+",
        metavar="N",
        help="documents to draw, counted from 0, such as 3 17 20-25 or 3,17 (default: the first 5)",
    )
    add("--batch-size", type=int, default=32, metavar="N", help="documents in a batch (default: 32)")
    add("--cpu", action="store_true", help="do not use a GPU")
    add_user_dir_option(parser)
    add_reading_options(parser)


def run(args: argparse.Namespace) -> None:
    at_least(args, batch_size=1)
    if args.plot:
        check_page("--plot", args.plot)
    elif args.documents:
        raise OptionError(f"--documents {' '.join(args.documents)}: needs --plot FILE.html, which shows them")
    numbers = sentence_numbers(args.documents, "--documents") or list(range(5))
    reading = reading_from(args)
    if args.input is None:
        check_unread(args, "is of --input, and a split has its words already; leave it out", add_reading_options)
    outputs = {"--out": args.out, "--scores": args.scores, "--plot": args.plot}
    written = [os.path.realpath(path) for path in outputs.values() if path]
    for option, path in outputs.items():
        check_output(option, path, [args.input, args.path])
        if path and written.count(os.path.realpath(path)) > 1:
            raise OptionError(f"{option} {path}: is named twice; give each output its own file")
    if args.input is not None and not os.path.isfile(args.input):
        hint = "a pipe cannot be read twice; must hold documents as JSONL, text or .csv"
        raise OptionError(f"--input {args.input}: there is no such file; {hint}")
    classifier = load_classifier(args.data, args.path, args.cpu)
    if args.input is not None:
        for _ in text_samples(classifier, documents_of(args.input, reading, labels=False)):
            pass  # a label that the model does not know is found before anything is written
        samples = text_samples(classifier, documents_of(args.input, reading, labels=False))
    else:
        samples = split_samples(classifier, args.gen_subset)
    scores, drawn = ClassificationScores(classifier.labels), {}
    out = os.devnull if args.plot and not args.out and sys.stdout.isatty() else args.out
    whole: Any = whole_text(out, f"--out {out}: cannot be written") if out else contextlib.nullcontext(sys.stdout)
    with whole as stream:
        items = classify(classifier, samples, args.batch_size)
        for number, item in enumerate(tqdm(items, unit=" documents", disable=None, leave=False)):
            scores.add(item)
            values = {name: value for name, value in asdict(item).items() if value is not None}
            stream.write(json.dumps(values, ensure_ascii=False) + "\n")
            if args.plot and number in numbers:
                drawn[number] = item
    if args.scores:
        write_json("--scores", args.scores, {"checkpoint": args.path, **scores.summary()})
    chosen = [drawn[number] for number in numbers if number in drawn]
    if args.plot and args.documents and len(chosen) < len(numbers):
        message = f"--documents {' '.join(args.documents)}: the data have {counted(scores.documents, 'document')}"
        if not chosen:
            raise OptionError(message)
        print(f"{message}; only these are drawn", file=sys.stderr)
    if args.plot:
        draw_documents(chosen, args.plot)
    print(scores, file=sys.stderr if args.out is None else sys.stdout)
