"""``fairseq-attn average``: one checkpoint whose parameters are the means of several checkpoints of a training.

    fairseq-attn average checkpoints --last 5 --out average.pt
    fairseq-attn average checkpoints --best 3 --out average.pt
    fairseq-attn average checkpoints/checkpoint8.pt checkpoints/checkpoint9.pt --out average.pt

Every command that takes a checkpoint takes the file.
"""

import argparse
import os
import re

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
    at_least(args, last=2, best=2)
    paths, count = args.checkpoints, args.last or args.best
    if count is None and len(set(paths)) < max(2, len(paths)):
        given = " ".join(paths) or "none"
        raise OptionError(f"checkpoints {given}: must be two or more, or a folder with --last N or --best N")
    if count is not None and len(paths) != 1:
        raise OptionError(f"--{'best' if args.best else 'last'} {count}: chooses from one folder, {len(paths)} given")
    from fairseq_attn_plugin.analysis.inference.averaging import CHECKPOINT, average, choose

    if count is not None:
        paths = choose(paths[0], count, args.best is not None)
    check_output("--out", args.out, paths, checkpoint=True)
    if os.path.exists(args.out) and re.fullmatch(CHECKPOINT, os.path.basename(args.out)):
        raise OptionError(f"--out {args.out}: is a checkpoint of a training, and would be lost; choose another name")
    average(paths, args.out)
    print(f"{args.out}: mean of", *paths, sep="\n  ")
