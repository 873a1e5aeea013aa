"""Hard word alignments from extracted attention, of one direction or of both.

    attn-analysis align soft.jsonl --out soft.align
    attn-analysis align de-en.jsonl --reverse en-de.jsonl --symmetrize intersection --out both.align

A link is a pair (i, j): source word i and target word j, counted from 0. In Python::

    links = align(open_records("soft.jsonl"), Linking(end="exclude"))      # a set for each sentence of the corpus
"""

from __future__ import annotations

import argparse

from fairseq_attn_plugin.analysis.alignment.linking import (
    _JOINED,
    add_linking_options,
    align,
    align_both,
    linking_of,
)
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, format_alignment
from fairseq_attn_plugin.analysis.alignment.symmetrize import SYMMETRIZATIONS
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_not_lost, whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="records of attn-analysis extract")
    parser.add_argument("--out", required=True, metavar="FILE", help="links, a line i-j i-j ... for each sentence")
    add_linking_options(parser)
    parser.add_argument(
        "--reverse", metavar="FILE", help="records of a model of the other direction, for the same sentence pairs"
    )
    parser.add_argument("--symmetrize", choices=SYMMETRIZATIONS, help=f"how both are joined (default: {_JOINED})")


def run(args: argparse.Namespace) -> None:
    linking = linking_of(args)
    if args.symmetrize and not args.reverse:
        raise OptionError(f"--symmetrize {args.symmetrize}: needs --reverse, records of the other direction")
    check_not_lost("--out", args.out, [args.file, args.reverse])
    records = open_records(args.file)
    if args.reverse:
        found = align_both(records, open_records(args.reverse), linking, args.symmetrize or _JOINED)
    else:
        found = align(records, linking)
    with whole_text(args.out, f"--out {args.out}: cannot be written") as stream:
        for links in found:
            stream.write(format_alignment(GoldAlignment(links or frozenset(), links or frozenset())) + "\n")
    count, left_out = sum(len(links or ()) for links in found), sum(links is None for links in found)
    print(
        f"{args.out}: {count} links of {len(found)} sentences"
        + (f"; {left_out} of them are not in the records, and their lines are empty" if left_out else "")
    )
