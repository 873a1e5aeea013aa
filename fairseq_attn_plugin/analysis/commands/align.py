"""Writes hard word alignments derived from extracted attention.

    fairseq-attn align soft.jsonl --out soft.align
    fairseq-attn align de-en.jsonl --reverse en-de.jsonl --symmetrize intersection --out both.align

The output is in Pharaoh format: a line ``i-j i-j ...`` for each sentence of the corpus, where i is a source word and j
a target word, counted from 0. A sentence that the records lack has an empty line. With ``--reverse``, the links of a
model of the opposite direction are joined to those of FILE.
"""

from __future__ import annotations

import argparse

from fairseq_attn_plugin.analysis.alignment.linking import add_linking_options, align, align_both, linking_of
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, format_alignment
from fairseq_attn_plugin.analysis.alignment.symmetrize import DEFAULT_SYMMETRIZATION, SYMMETRIZATIONS
from fairseq_attn_plugin.analysis.folders import with_attention
from fairseq_attn_plugin.analysis.records.files import open_systems
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_not_lost, whole_text


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="model folder or file of fairseq-attn extract")
    parser.add_argument(
        "--out", required=True, metavar="FILE", help="file to write, a line i-j i-j ... for each sentence"
    )
    add_linking_options(parser)
    parser.add_argument(
        "--reverse", metavar="FILE", help="records of a model of the opposite direction, for the same sentence pairs"
    )
    parser.add_argument(
        "--symmetrize",
        choices=SYMMETRIZATIONS,
        help=f"method that joins both directions (default: {DEFAULT_SYMMETRIZATION})",
    )


def run(args: argparse.Namespace) -> None:
    linking = linking_of(args)
    if args.symmetrize and not args.reverse:
        raise OptionError(f"--symmetrize {args.symmetrize}: needs --reverse, records of the opposite direction")
    check_not_lost("--out", args.out, [args.file, args.reverse])
    records = open_systems(with_attention([args.file]))[0]
    if args.reverse:
        reverse = open_systems(with_attention([args.reverse]))[0]
        found = align_both(records, reverse, linking, args.symmetrize or DEFAULT_SYMMETRIZATION)
    else:
        found = align(records, linking)
    with whole_text(args.out, f"--out {args.out}: cannot be written") as stream:
        for links in found:
            stream.write(format_alignment(GoldAlignment(links or frozenset(), links or frozenset())) + "\n")
    count, left_out = sum(len(links or ()) for links in found), sum(links is None for links in found)
    print(
        f"{args.out}: {count} links of {len(found)} sentences"
        + (f"; the records lack {left_out} of them, which have empty lines" if left_out else "")
    )
