"""``fairseq-attn average``: one checkpoint whose parameters are the means of several checkpoints of a training.

    fairseq-attn average checkpoints --last 5 --out average.pt
    fairseq-attn average checkpoints --best 3 --out average.pt
    fairseq-attn average checkpoints/checkpoint8.pt checkpoints/checkpoint9.pt --out average.pt
    fairseq-attn average --show average.pt

Every command that takes a checkpoint takes the file. It has the list of its parts, and no state of the optimiser.
"""

from __future__ import annotations

import argparse
import logging

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_output


def configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "checkpoints", nargs="*", metavar="PATH", help="checkpoints, or one folder of checkpoints with --last or --best"
    )
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--last", type=int, metavar="N", help="the N checkpoints with the most updates")
    chosen.add_argument(
        "--best", type=int, metavar="N", help="the N checkpoints with the best --best-checkpoint-metric in validation"
    )
    chosen.add_argument("--show", metavar="FILE", help="print what an averaged checkpoint is made of")
    add("--out", metavar="FILE", help="checkpoint to write")


def run(args: argparse.Namespace) -> None:
    _check(args)
    from fairseq_attn_plugin.analysis.inference.averaging import average, best_of, last_of, parts_of

    logging.getLogger("fairseq").setLevel(logging.WARNING)
    if args.show is not None:
        print(f"{args.show}: mean of", *map(str, parts_of(args.show)), sep="\n  ")
        return
    paths = args.checkpoints
    if args.last is not None:
        paths = last_of(paths[0], args.last)
    elif args.best is not None:
        paths = best_of(paths[0], args.best)
    check_output("--out", args.out, paths)
    print(f"{args.out}: mean of", *map(str, average(paths, args.out)), sep="\n  ")


def _check(args: argparse.Namespace) -> None:
    if args.show is not None:
        if args.checkpoints or args.out is not None:
            raise OptionError(f"--show {args.show}: reads this file and writes nothing; leave out the other arguments")
        return
    for option, count in (("--last", args.last), ("--best", args.best)):
        if count is None:
            continue
        if count < 2:
            raise OptionError(f"{option} {count}: must be at least 2")
        if len(args.checkpoints) != 1:
            raise OptionError(
                f"{option} {count}: chooses from one folder of checkpoints, {len(args.checkpoints)} given"
            )
    if args.out is None:
        raise OptionError("--out FILE: must name the checkpoint to write")
    if args.last is None and args.best is None:
        if len(args.checkpoints) < 2:
            given = " ".join(args.checkpoints) or "none"
            raise OptionError(f"checkpoints {given}: must be at least two, or a folder with --last N or --best N")
        if len(set(args.checkpoints)) < len(args.checkpoints):
            raise OptionError(f"checkpoints {' '.join(args.checkpoints)}: one is given twice")
