"""Converts word alignments to indices of subwords, for fairseq-preprocess --align-suffix and supervised attention.

    fast_align -i corpus -d -o -v > train.words    # or eflomal, or any tool that writes i-j, counted from 0
    fairseq-attn subword-alignments train.words --source train.bpe.de --target train.bpe.en --out train.bpe.align

``--to-words`` converts in the other direction (for alignment error rates). ``--check`` only checks that alignments of
subwords fit the corpus. Files are read line by line. An error message names the file and the line.
"""

from __future__ import annotations

import argparse

from fairseq_attn_plugin.analysis.alignment.subword_links import check_file, convert_file
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.subwords import SUBWORDS

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("alignments", help="a line of links i-j (ipj: only possible) for each sentence pair, from 0")
    parser.add_argument("--source", required=True, metavar="FILE", help="source side, in subwords")
    parser.add_argument("--target", required=True, metavar="FILE", help="target side, in subwords")
    parser.add_argument("--out", metavar="FILE", help="file to write: PREFIX.align for --trainpref PREFIX")
    parser.add_argument(
        "--subwords", choices=SUBWORDS, default="bpe", help="subword segmentation (default: bpe, the @@ of subword-nmt)"
    )
    parser.add_argument("--reverse", action="store_true", help="the links are j-i, target word first")
    parser.add_argument(
        "--possible", choices=["drop", "keep"], default="drop", help="links that are only possible (default: drop)"
    )
    parser.add_argument("--to-words", action="store_true", help="from links of subwords to links of words")
    parser.add_argument("--check", action="store_true", help="check links of subwords, and write nothing")


def run(args: argparse.Namespace) -> None:
    if args.check:
        if args.out or args.reverse or args.to_words or args.possible != "drop":
            raise OptionError("--check: writes nothing; leave out --out, --reverse, --possible and --to-words")
        counts = check_file(args.alignments, args.source, args.target)
    elif not args.out:
        raise OptionError("--out: is missing; name the file to write, or give --check")
    else:
        counts = convert_file(
            args.alignments,
            args.source,
            args.target,
            args.out,
            subwords=args.subwords,
            reverse=args.reverse,
            keep_possible=args.possible == "keep",
            words=args.to_words,
        )
    print(
        f"{args.out or args.alignments}: {counted(counts.links, 'link')} of "
        f"{counted(counts.sentences, 'sentence pair')}, "
        f"{counts.unaligned} of them without links"
        + (f"; {counts.possible} possible links left out (--possible keep)" if counts.possible else "")
    )
