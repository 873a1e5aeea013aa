"""Converts labelled documents (JSONL, text or .csv) to lines for fairseq-preprocess, for document classification.

    fairseq-attn documents reviews.jsonl --to text --split valid=0.1 test=0.1     # train, valid and test
    fairseq-attn documents train.jsonl --to text --name train                     # or each from its own file

Then, for ``fairseq-train data --task document_classification``:

    for side in input0 label; do
        fairseq-preprocess --only-source --trainpref text/train.$side --validpref text/valid.$side \\
            --testpref text/test.$side --destdir data/$side
    done
"""

import argparse
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Dict, List, Sequence

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import check_unread
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.documents import Document, documents_of, split_documents, to_line, write_documents
from fairseq_attn_plugin.text.lines import iter_lines
from fairseq_attn_plugin.text.reading import add_reading_options, reading_from
from fairseq_attn_plugin.writing import check_output

LONG = 12  # characters of a word and the space after it, on average: in German, Finnish or Tamil they are 7 to 11


def shares_of(texts: Sequence[str], rest: str) -> Dict[str, float]:
    """The shares of ``NAME=SHARE``; ``rest`` is the name of what is left."""
    shares: Dict[str, float] = {}
    for text in texts:
        parts = re.fullmatch(r"([^/=]+)=(0?\.\d*[1-9]\d*)", text)
        if parts is None:
            raise OptionError(
                f"--split {text}: must be NAME=SHARE, a name without / and a share between 0 and 1, as in valid=0.1"
            )
        if parts[1] in (rest, *shares):
            raise OptionError(f"--split {text}: must name a split that differs from {rest} and the other splits")
        shares[parts[1]] = float(parts[2])
    return shares


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help='JSONL: {"label": ..., "sentences": [...]} or "text"; text: LABEL<TAB>text; .csv')
    parser.add_argument("--to", required=True, metavar="FOLDER", help="folder for NAME.input0 and NAME.label")
    parser.add_argument("--name", default="train", help="name of the split without --split's shares (default: train)")
    parser.add_argument(
        "--split", nargs="+", default=[], metavar="NAME=SHARE", help="further splits, drawn at random from every label"
    )
    _add_seed(parser)
    add_reading_options(parser)


def _add_seed(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=1, help="random seed of --split (default: 1)")


def _check_others(others: List[Path], splits: Dict[str, List[Document]]) -> None:
    """Raises ``OptionError`` if all documents of a split that an earlier call has left are among the new ones."""
    lines = {to_line(document.sentences) for part in splits.values() for document in part}
    for path in others:
        kept = list(iter_lines(path))
        if kept and lines.issuperset(kept):
            raise OptionError(
                f"--to {path.parent}: the split {path.stem} of an earlier call would stay, and its documents are in "
                f"{' and '.join(splits)}, too; repeat --split {path.stem}=SHARE, or name another folder"
            )


def run(args: argparse.Namespace) -> None:
    for name in (args.name, *(text.partition("=")[0] for text in args.split)):
        for side in ("input0", "label"):
            if os.path.isdir(args.to):  # otherwise it is made
                check_output("--to", Path(args.to) / f"{name}.{side}", [args.file])
    documents = documents_of(args.file, reading_from(args))
    shares = shares_of(args.split, args.name)
    if not shares:
        check_unread(args, "needs --split NAME=SHARE, which it draws", _add_seed)
    splits = split_documents(documents, shares, args.name, args.seed) if shares else {args.name: documents}
    others = [path for path in sorted(Path(args.to).glob("*.input0")) if path.stem not in splits]
    if others:  # without them documents are written as they are read
        splits = {name: list(part) for name, part in splits.items()}
        _check_others(others, splits)
    for name, part in splits.items():
        count, sentences, words = write_documents(part, Path(args.to) / name)
        sizes = zip((count, sentences, words), ("document", "sentence", "word"))
        counts = Counter(iter_lines(Path(args.to) / f"{name}.label"))  # in the order of the documents
        labels = counts.most_common()
        shown = [f"{label} {number:,}" for label, number in labels[:30]] + ["..."] * (len(labels) > 30)
        print(
            f"{Path(args.to) / name}: {', '.join(counted(*one) for one in sizes)}; "
            f"{counted(len(labels), 'label')}: {', '.join(shown)}"
        )
        rare = [label for label, number in labels if number == 1]
        if name == args.name and len(labels) > 1 and rare == [next(iter(counts))]:
            print(
                f"{args.file}: the label {rare[0]} is that of the first document alone; if its line names columns, the "
                "names must be label and text",
                file=sys.stderr,
            )
        letters = sum(map(len, iter_lines(Path(args.to) / f"{name}.input0")))
        if letters > LONG * words:
            print(
                f"{args.file}: words have {letters / words:.0f} characters on average; split text without spaces "
                "between words beforehand",
                file=sys.stderr,
            )
