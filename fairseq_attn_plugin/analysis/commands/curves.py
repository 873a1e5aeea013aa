"""``fairseq-attn curves``: learning curves from the logs or TensorBoard files of fairseq-train.

    fairseq-attn curves soft=soft.log marginal=marginal.log elbo=runs/elbo --out curves.png
        [--metrics accuracy bound ppl] [--x updates] [--json curves.json]

A log is the output of fairseq-train with ``--log-format json`` or ``simple``, or its ``--log-file``. A folder is its
``--tensorboard-logdir``, a model folder, or a folder of a recipe that holds ``train.log``. There is one panel per
metric: a metric of the logs, or one of the groups that make latent alignment models comparable (Deng et al., "Latent
Alignment and Variational Attention", 2018):

    accuracy   posterior_accuracy, else prior_accuracy, else accuracy; per cent of words
    bound      bound; nats per word
    ppl        marginal_ppl, else ppl; perplexity per word

A run shows the first of these metrics that it logs in training and in validation. Soft attention logs marginal_ppl in
validation only, and therefore shows ppl. Curves are over epochs if all runs record them, else over updates:
TensorBoard files record updates only.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Dict, Sequence

from fairseq_attn_plugin.analysis.drawing.canvas import SUFFIXES
from fairseq_attn_plugin.analysis.drawing.curves import (
    GROUPS,
    logged_groups,
    plot_curves,
    read_runs,
    write_json,
)
from fairseq_attn_plugin.analysis.folders import with_logs
from fairseq_attn_plugin.analysis.records.files import label_and_path
from fairseq_attn_plugin.analysis.training_logs import AXES
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_not_lost

__all__ = ["configure", "label_runs", "run"]


_COMMON_NAMES = ("log", "train", "tensorboard")  # file names that do not identify a run; the name of the folder does


def label_runs(arguments: Sequence[str]) -> Dict[str, str]:
    """{label: path} of arguments PATH or LABEL=PATH. Raises ``OptionError`` for a label that occurs twice."""
    runs: Dict[str, str] = {}
    for argument in arguments:
        given, path = label_and_path(argument)
        if not path:
            raise OptionError(f"{argument!r}: must be LABEL=PATH, a name for the run and its log")
        label = given or (Path(path).resolve().parent.name if Path(path).stem in _COMMON_NAMES else Path(path).stem)
        if label in runs:
            raise OptionError(f"{argument!r}: the label {label!r} already names {runs[label]}; choose another")
        runs[label] = path
    return runs


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="+", metavar="[LABEL=]PATH", help="log, its folder, or TensorBoard folder")
    parser.add_argument(
        "--metrics",
        nargs="+",
        metavar="NAME",
        help=f"one panel each: {', '.join(GROUPS)} (default: those in the logs), or any metric of the logs",
    )
    parser.add_argument("--x", choices=AXES, help="horizontal axis (default: epochs, if all runs record them)")
    parser.add_argument("--out", required=True, metavar="FILE", help=f"picture to write: {', '.join(SUFFIXES)}")
    parser.add_argument("--json", metavar="FILE", help="also write the values as JSON")


def run(args: argparse.Namespace) -> None:
    runs = label_runs(with_logs(args.runs))
    for option, path in (("--out", args.out), ("--json", args.json)):
        check_not_lost(option, path, runs.values())
    if args.json and Path(args.json) == Path(args.out):
        raise OptionError(f"--json {args.json}: is also the name of the picture; choose another")
    panels = plot_curves(runs, args.metrics or logged_groups(read_runs(runs, args.x)), args.out, args.x)
    if args.json:
        write_json(args.json, panels)
    print(f"{args.out}: {', '.join(panels)} of {', '.join(runs)}")
