"""Measured values, read from the files in benchmarks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Dict, List

import numpy as np

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save
from fairseq_attn_plugin.analysis.drawing.colours import distinct_colours

from .common import BLUE, GREEN, GREY, ORANGE, style

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
MECHANISMS = (
    *("soft", "structured", "sigmoid", "local-p"),
    *("soft-position", "soft-markov", "soft-fertility", "soft-all", "guided", "agreement"),
)


def speed(path: Path) -> None:
    """Ratios of training and decoding against stock `lstm`, with the lowest and highest round."""
    measured = json.loads((BENCHMARKS / "cpu-speed.json").read_text(encoding="utf-8"))["sections"]
    names = [name for name in measured["train"]["25"]["systems"] if name != "lstm"]
    with canvas("speed", (5.4, 2.5)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="x")
        for number, (section, label) in enumerate((("train", "training step"), ("decode", "beam-10 decoding"))):
            times = [measured[section]["25"]["systems"][name]["time_ratio"]["lstm"] for name in names]
            # a time ratio is the system's time over the baseline's; the page gives the opposite
            ratios, low, high = (np.array([1 / time[key] for time in times]) for key in ("median", "max", "min"))
            places = np.arange(len(names)) + 0.38 * number - 0.19
            error = (ratios - low, high - ratios)
            axes.barh(places, ratios, 0.36, label=label, color=(BLUE, GREEN)[number])
            axes.errorbar(ratios, places, xerr=error, fmt="none", ecolor="#495057", elinewidth=1, capsize=2)
        axes.axvline(1, color="#495057", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(names)), [name.replace(":input_feeding=", ", input feeding ") for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("times as fast as stock lstm", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.01, 1))
        save(figure, path)


def mechanisms(path: Path) -> None:
    """Perplexity, BLEU and alignment error rate of every system of the table."""
    columns: Dict[str, List[float]] = {"perplexity": [], "BLEU": [], "AER": []}
    for name in MECHANISMS:
        file = BENCHMARKS / "results" / "multi30k-de-en-attention" / f"{name}.seed1.json"
        found = json.loads(file.read_text(encoding="utf-8"))
        validation = found["validation"]
        columns["perplexity"].append(float(validation.get("valid_forward_ppl", validation["valid_ppl"])))
        columns["BLEU"].append(found["bleu"]["score"])
        columns["AER"].append(float(re.findall(r"AER +([\d.]+)", "".join(found["synthetic"]))[0]))
    labels = ("perplexity (low is good)", "BLEU (high is good)", "AER (low is good)")
    with canvas("mechanisms", (7.2, 2.6)) as figure:
        for number, (values, label) in enumerate(zip(columns.values(), labels)):
            axes = figure.add_axes((number * 0.345, 0, 0.31, 0.92))
            style(axes, label, grid="x")
            axes.axvline(values[0], color=GREY, linewidth=1, linestyle="--")
            colours = [BLUE if name == "soft" else GREEN if name[:5] == "soft-" else ORANGE for name in MECHANISMS]
            axes.hlines(range(len(values)), values[0], values, color=colours, linewidth=1.6)
            axes.scatter(values, range(len(values)), color=colours, s=28, zorder=3)
            axes.set_yticks(range(len(values)), [name.replace("soft-", "soft + ") for name in MECHANISMS])
            axes.tick_params(labelleft=number == 0)
            axes.invert_yaxis()
        save(figure, path)


def multi30k(path: Path) -> None:
    """Validation perplexity by epoch of all runs."""
    files = sorted((BENCHMARKS / "results" / "multi30k-de-en").glob("*.json"))
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    names = sorted({run["arch"] for run in runs})
    with canvas("multi30k", (5.2, 2.7)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="y")
        for run in runs:
            colour = distinct_colours(len(names))[names.index(run["arch"])]
            line = "-" if run["seed"] == 1 else "--"
            epochs = [(item["epoch"], float(item["valid_ppl"])) for item in run["epochs"]]
            label = f"{run['arch']}, seed {run['seed']}"
            axes.plot(*zip(*epochs), line, marker="o", markersize=3, color=colour, label=label, linewidth=1.5)
        axes.set_yscale("log")
        axes.set_yticks([7, 10, 20, 50], ["7", "10", "20", "50"])
        axes.set_yticks([], minor=True)
        axes.set_xlabel("epoch", fontsize=9)
        axes.set_ylabel("validation perplexity", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.01, 1))
        save(figure, path)
