"""Writes word alignments of a corpus, taken from the attention of a trained model, for supervised attention.

    fairseq-attn teacher-alignments DATA --path CHECKPOINT --gen-subset train --out FILE
    fairseq-attn teacher-alignments DATA --path CHECKPOINT --gen-subset train --into-data

The model, the teacher, forces the reference translation. Each target subword is linked to the source subword of
greatest weight, or has no link if that is the end of the source. ``--method`` chooses the weights, as in
``fairseq-attn align``. FILE has a line ``i-j i-j ...`` for each sentence, in
the order of the corpus and in subword indices, as ``--align-suffix`` of fairseq-preprocess reads it. ``--into-data``
puts the alignments into DATA for ``fairseq-train --load-alignments``.

``--reverse-path`` adds a teacher of the opposite direction; ``--symmetrize`` joins the links of both.
"""

from __future__ import annotations

import argparse
import logging
import os

import fairseq_attn_plugin  # noqa: F401  (registers the architectures)
from fairseq_attn_plugin.analysis.alignment.linking import METHODS
from fairseq_attn_plugin.analysis.alignment.symmetrize import DEFAULT_SYMMETRIZATION, SYMMETRIZATIONS
from fairseq_attn_plugin.analysis.inference.loading import (
    add_model_options,
    load_from_options,
    load_models,
)
from fairseq_attn_plugin.analysis.inference.teacher_alignments import (
    binarize,
    data_prefix,
    joined_links,
    teacher_links,
    write_links,
)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", help="folder of fairseq-preprocess, model folder, or checkpoint")
    add_model_options(parser)
    parser.add_argument("--gen-subset", default="train", metavar="SPLIT", help="split to align (default: train)")
    parser.add_argument("--out", metavar="FILE", help="text file to write, a line i-j i-j ... for each sentence")
    parser.add_argument("--into-data", action="store_true", help="put the links into the data folder")
    parser.add_argument("--overwrite", action="store_true", help="with --into-data: replace existing alignments")
    parser.add_argument(
        "--method",
        choices=tuple(METHODS),
        default="attention",
        help="weights that are read, see fairseq-attn align (default: attention)",
    )
    parser.add_argument(
        "--reverse-path",
        metavar="FILE",
        help="checkpoint of the opposite direction (of an agreement model: what export --direction writes)",
    )
    parser.add_argument(
        "--symmetrize",
        choices=SYMMETRIZATIONS,
        help=f"method that joins both directions (default: {DEFAULT_SYMMETRIZATION})",
    )
    parser.add_argument("--max-tokens", type=int, default=4000, metavar="N", help="subwords in a batch (default: 4000)")


def run(args: argparse.Namespace) -> None:
    _check(args)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    teacher = load_from_options(args)
    prefix = data_prefix(args.data, args.gen_subset, teacher.languages)
    if args.into_data and not args.overwrite and os.path.exists(prefix + ".idx"):
        raise OptionError(f"--into-data: {prefix}.idx exists; give --overwrite to replace it")
    if args.reverse_path:
        backward = load_models(args.data, args.reverse_path, teacher.overrides, args.cpu, "--reverse-path")
        if backward.languages != teacher.languages[::-1]:
            raise OptionError(
                f"--reverse-path {args.reverse_path}: translates {'-'.join(backward.languages)}, must translate "
                f"{'-'.join(teacher.languages[::-1])}, the opposite direction of --path"
            )
        method = args.symmetrize or DEFAULT_SYMMETRIZATION
        links = joined_links(teacher, backward, args.gen_subset, args.max_tokens, method, args.method)
    else:
        links = teacher_links(teacher, args.gen_subset, args.max_tokens, args.method)

    if args.into_data and not any(links):  # the file would have no bytes, which fairseq cannot read
        raise OptionError(
            f"--path {args.path}: links no word of the split {args.gen_subset}: its attention is greatest on the end "
            "of every source; train the teacher longer, or use another one"
        )
    out = args.out or prefix + ".txt"
    write_links(out, links)
    if args.into_data:
        binarize(out, prefix)
        if not args.out:
            os.remove(out)
    left_out = sum(sentence is None for sentence in links)
    print(
        f"{args.out or prefix}: {counted(sum(len(one or ()) for one in links), 'link')} of "
        f"{counted(len(links), 'sentence')}"
        + (f"; {counted(left_out, 'sentence')} longer than the teacher allows, without links" if left_out else "")
    )


def _check(args: argparse.Namespace) -> None:
    if os.pathsep in args.data:
        raise OptionError(f"{args.data}: give one data folder at a time, since each has its own alignments")
    if not args.out and not args.into_data:
        raise OptionError("--out is missing: name the file to write, or give --into-data")
    if args.max_tokens < 1:
        raise OptionError(f"--max-tokens {args.max_tokens}: must be at least 1")
    if args.symmetrize and not args.reverse_path:
        raise OptionError(f"--symmetrize {args.symmetrize}: needs --reverse-path, a teacher of the opposite direction")
