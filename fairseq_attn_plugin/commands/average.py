"""``fairseq-attn average``: one checkpoint whose parameters are the means of several checkpoints of a training.

    fairseq-attn average checkpoints --last 5 --out average.pt
    fairseq-attn average checkpoints --best 3 --out average.pt
    fairseq-attn average checkpoints/checkpoint8.pt checkpoints/checkpoint9.pt --out average.pt

Every command that takes a checkpoint takes the file.
"""

from __future__ import annotations

import argparse

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import at_least
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
    add("--out", required=True, metavar="FILE", help="checkpoint to write")


def run(args: argparse.Namespace) -> None:
    _check(args)
    from fairseq_attn_plugin.analysis.inference.averaging import average, best_of, last_of

    paths = args.checkpoints
    if args.last is not None:
        paths = last_of(paths[0], args.last)
    elif args.best is not None:
        paths = best_of(paths[0], args.best)
    check_output("--out", args.out, paths)
    print(f"{args.out}: mean of", *map(str, average(paths, args.out)), sep="\n  ")


def _check(args: argparse.Namespace) -> None:
    at_least(args, last=2, best=2)
    for option, count in (("--last", args.last), ("--best", args.best)):
        if count is not None and len(args.checkpoints) != 1:
            raise OptionError(
                f"{option} {count}: chooses from one folder of checkpoints, {len(args.checkpoints)} given"
            )
    if args.last is None and args.best is None:
        if len(args.checkpoints) < 2:
            given = " ".join(args.checkpoints) or "none"
            raise OptionError(f"checkpoints {given}: must be at least two, or a folder with --last N or --best N")
        if len(set(args.checkpoints)) < len(args.checkpoints):
            raise OptionError(f"checkpoints {' '.join(args.checkpoints)}: one is given twice")
