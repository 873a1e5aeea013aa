"""Word alignments of a corpus from trained models: what a teacher attends to, for supervised attention.

    attn-analysis teacher-alignments DATA --path CHECKPOINT --gen-subset train --out FILE

The reference translation is forced. Each target subword is linked to the source subword of greatest weight; where that
is the end of the source, it has no link, and neither has the end of the target. A line of FILE is a sentence of the
corpus that fairseq-preprocess read, in its order and in the indices of its subwords, as ``--align-suffix`` wants it.
With ``--into-data`` the alignments are put into DATA itself, for ``fairseq-train --load-alignments``.

With ``--reverse-path``, a teacher of the other direction of translation, both alignments are joined by
``--symmetrize``.
"""

from __future__ import annotations

import argparse
import logging
import os

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.analysis.alignment.symmetrize import SYMMETRIZATIONS
from fairseq_attn_plugin.analysis.inference.loading import add_teacher_options, load_teacher
from fairseq_attn_plugin.analysis.inference.teacher_alignments import (
    binarize,
    data_prefix,
    joined,
    teacher_links,
    write_links,
)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.overrides import parse_overrides


def _check(args: argparse.Namespace) -> None:
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: one data folder at a time, please; each has alignments of its own")
    if not args.out and not args.into_data:
        raise OptionError("--out is missing: name the file to write, or give --into-data")
    if args.max_tokens < 1:
        raise OptionError(f"--max-tokens {args.max_tokens}: must be at least 1")
    if args.symmetrize and not args.reverse_path:
        raise OptionError(f"--symmetrize {args.symmetrize}: needs --reverse-path, a teacher of the other direction")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="folder that fairseq-preprocess wrote")
    add_teacher_options(parser)
    parser.add_argument("--gen-subset", default="train", metavar="SPLIT", help="what to align (default: train)")
    parser.add_argument("--out", metavar="FILE", help="alignments as text, a line i-j i-j ... for each sentence")
    parser.add_argument("--into-data", action="store_true", help="put them into the data folder for --load-alignments")
    parser.add_argument("--overwrite", action="store_true", help="with --into-data: replace what is there")
    parser.add_argument(
        "--reverse-path",
        metavar="FILE",
        help="checkpoint of the other direction of translation (of an agreement model: its export_direction.py)",
    )
    parser.add_argument(
        "--symmetrize", choices=SYMMETRIZATIONS, help="how both directions are joined (default: grow-diag-final-and)"
    )
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="subwords in a batch (default: 4000)")


def run(args: argparse.Namespace) -> None:
    _check(args)
    overrides = parse_overrides(args.model_overrides)
    logging.getLogger("fairseq").setLevel(logging.WARNING)

    teacher = load_teacher(args.data, args.path, overrides, args.cpu)
    prefix = data_prefix(args.data, args.gen_subset, teacher.languages)
    if args.into_data and not args.overwrite and os.path.exists(prefix + ".idx"):
        raise OptionError(f"--into-data: {prefix}.idx is there already; give --overwrite to replace it")
    if args.reverse_path:
        backward = load_teacher(args.data, args.reverse_path, overrides, args.cpu, "--reverse-path")
        if backward.languages != teacher.languages[::-1]:
            raise OptionError(
                f"--reverse-path {args.reverse_path}: translates {'-'.join(backward.languages)}, must translate "
                f"{'-'.join(teacher.languages[::-1])}, against the direction of --path"
            )
        method = args.symmetrize or "grow-diag-final-and"
        links = joined(teacher, backward, args.gen_subset, args.max_tokens, method)
    else:
        links = teacher_links(teacher, args.gen_subset, args.max_tokens)

    if args.into_data and not any(links):
        raise OptionError(
            f"--path {args.path}: links no word of the split {args.gen_subset}: its attention is greatest on the end "
            "of every source; train the teacher longer, or take another"
        )
    out = args.out or prefix + ".txt"
    write_links(out, links)
    if args.into_data:
        binarize(out, prefix)
        if not args.out:
            os.remove(out)
    left_out = sum(sentence is None for sentence in links)
    print(
        f"{args.out or prefix}: {sum(len(sentence or ()) for sentence in links)} links of {len(links)} sentences"
        + (f", {left_out} of them longer than the teacher takes and left without links" if left_out else "")
    )
