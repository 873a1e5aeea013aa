"""Learning curves from the logs or TensorBoard files of fairseq-train.

    attn-analysis curves soft=soft.log marginal=marginal.log elbo=runs/elbo --out curves.png
        [--metrics accuracy bound ppl] [--x updates] [--json curves.json]

A log is what fairseq-train printed, with ``--log-format json`` or ``simple``, or its ``--log-file``; a folder is that
of its ``--tensorboard-logdir``.  There is one panel per metric: the name of a metric in the logs, or one of the groups
that compare latent alignment models (Deng et al., "Latent Alignment and Variational Attention", 2018):

    accuracy   posterior_accuracy, else prior_accuracy, else accuracy; per cent of words
    bound      bound; nats per word
    ppl        marginal_ppl, else ppl; perplexity per word

A run shows the first of these that it logs in training and in validation: soft attention logs marginal_ppl at
validation alone, and shows ppl, its own prediction's.
What they mean is written in :mod:`fairseq_attn_plugin.criterions.latent_alignment`.  Curves are over epochs if all runs
know them, else, since TensorBoard's files do not, over updates.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Dict, Sequence

from fairseq_attn_plugin.analysis.drawing.canvas import SUFFIXES
from fairseq_attn_plugin.analysis.drawing.curves import (
    _LOGS,
    GROUPS,
    logged_groups,
    plot_curves,
    read_runs,
    write_json,
)
from fairseq_attn_plugin.analysis.records.files import label_and_path
from fairseq_attn_plugin.analysis.training_logs import AXES
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_not_lost


def _runs(arguments: Sequence[str]) -> Dict[str, str]:
    runs: Dict[str, str] = {}
    for argument in arguments:
        given, path = label_and_path(argument)
        if not path:
            raise OptionError(f"{argument!r}: is not LABEL=PATH, a name for the run and the log of its fairseq-train")
        label = given or (Path(path).resolve().parent.name if Path(path).stem in _LOGS else Path(path).stem)
        if label in runs:
            raise OptionError(f"{argument!r}: the label {label!r} already stands for {runs[label]}; choose another")
        runs[label] = path
    return runs


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="+", metavar="[LABEL=]PATH", help="log or TensorBoard folder of a run, and its name"
    )
    parser.add_argument(
        "--metrics",
        nargs="+",
        metavar="NAME",
        help=f"a panel each: {', '.join(GROUPS)} (the default: those that are logged), or any metric of the logs",
    )
    parser.add_argument("--x", choices=AXES, help="what curves are over (default: epochs, if all runs know them)")
    parser.add_argument("--out", required=True, metavar="FILE", help=f"picture to write: {', '.join(SUFFIXES)}")
    parser.add_argument("--json", metavar="FILE", help="write the values of the picture as well")


def run(args: argparse.Namespace) -> None:
    runs = _runs(args.runs)
    for option, path in (("--out", args.out), ("--json", args.json)):
        check_not_lost(option, path, runs.values())
    if args.json and Path(args.json) == Path(args.out):
        raise OptionError(f"--json {args.json}: is the picture's name; give it another one")
    panels = plot_curves(runs, args.metrics or logged_groups(read_runs(runs, args.x)), args.out, args.x)
    if args.json:
        write_json(args.json, panels)
    print(f"{args.out}: {', '.join(panels)} of {', '.join(runs)}")
