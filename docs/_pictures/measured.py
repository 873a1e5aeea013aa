"""Measured values, read from the files in benchmarks."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save

from .common import BENCHMARKS, BLUE, GREEN, Series, results, series_of, style

# of the names of systems and searches
ABBREVIATIONS = (
    (r"matmul_precision=", ""),
    (r"decoding_precision=", ""),
    (r"optimizer=fused_adam", "fused Adam"),
    (r"input_feeding=none", "no feeding"),
    (r"shortlist_size=\d+", "shortlist"),
)


def speed(path: Path) -> None:
    """Ratios of training and of translation against stock fairseq, with the lowest and highest round."""
    epochs = read("cpu-epochs")["epochs"]["all"]["systems"]
    translation = read("cpu-translation")
    training = {short(name): figures["time_ratio"]["lstm"] for name, figures in epochs.items() if name != "lstm"}
    searches = {
        f"{'batches' if section == 'translate' else 'sentence'}, {label}: {short(name)}": figures["time_ratio"]["stock"]
        for section in ("translate", "sentence")
        for label, measured in translation[section].items()
        for name, figures in measured["systems"].items()
        if name != "stock"
    }
    with canvas("speed", (7.6, 0.5 + 0.2 * max(len(training), len(searches)))) as figure:
        titles = ("training, whole epochs", "translation of a test set")
        for number, (measured, title) in enumerate(zip((training, searches), titles)):
            axes = figure.add_axes((number * 0.78, 0, 0.4, 1))
            style(axes, title, grid="x")
            # a time ratio is the system's time over the baseline's; the page gives the opposite
            ratios, low, high = (
                np.array([1 / time[key] for time in measured.values()]) for key in ("median", "max", "min")
            )
            places = np.arange(len(measured))
            axes.barh(places, ratios, 0.6, color=(BLUE, GREEN)[number])
            error = (ratios - low, high - ratios)
            axes.errorbar(ratios, places, xerr=error, fmt="none", ecolor="#495057", elinewidth=1, capsize=2)
            axes.axvline(1, color="#495057", linewidth=1, linestyle="--")
            axes.set_yticks(places, list(measured))
            axes.invert_yaxis()
            axes.set_xlabel("times as fast as stock fairseq", fontsize=9)
        save(figure, path)


def translation(path: Path) -> None:
    """BLEU of a test set by the number of sentences a second, of every search and beam."""
    with canvas("translation", (6.4, 3)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="both")
        for (beam, measured), look in zip(read("cpu-translation")["translate"].items(), series_of(3)):
            systems = measured["systems"].values()
            rates, scores = ([figures[key] for figures in systems] for key in ("sentences_per_second", "bleu"))
            axes.plot(rates, scores, color=look.colour, marker=look.marker, label=beam, linewidth=1)
            for name, rate, score in zip(measured["systems"], rates, scores):
                label = short(name).removeprefix("plugin, ")
                axes.annotate(label, (rate, score), (3, 6), textcoords="offset points", fontsize=8)
        axes.margins(0.12, 0.16)
        axes.set_xlabel("sentences a second", fontsize=9)
        axes.set_ylabel("BLEU", fontsize=9)
        axes.legend(fontsize=8, frameon=False)
        save(figure, path)


def read(name: str) -> Dict[str, Any]:
    """The measured sections of one of the benchmark's files."""
    sections: Dict[str, Any] = json.loads((BENCHMARKS / f"{name}.json").read_text(encoding="utf-8"))["sections"]
    return sections


def short(name: str) -> str:
    """A system or a search in a few words."""
    for option, words in ABBREVIATIONS:
        name = re.sub(option, words, name)
    return name.replace(":", ", ").replace(",", ", ").replace(",  ", ", ")


def mechanisms(path: Path) -> None:
    """Biases on attention after fifteen epochs at a learning rate of 3e-3: perplexity, BLEU and alignment error rate of
    every system with links, a point for each seed."""
    runs = {
        system.removeprefix("small-").replace("_", ", "): seeds
        for system, seeds in results("multi30k-de-en-mechanisms-epoch15-lr3e-3").items()
        if "links" in seeds[0]
    }
    attention, other, bias = series_of(3)
    biases = {"position", "markov", "fertility"}
    looks = {name: attention if name == "attention" else bias if name in biases else other for name in runs}
    ends = {**ENDS, "AER, per cent (low is good)": lambda run: 100 * run["links"]["aer"]}
    with canvas("mechanisms", (7.2, 0.26 * len(runs) + 0.4)) as figure:
        boxes = [(number * 0.345, 0, 0.31, 0.92) for number in range(len(ends))]
        _ends(figure, boxes, runs, looks, ends)
        save(figure, path)


# title of a panel -> value of a training
ENDS: Dict[str, Callable[[Any], float]] = {
    "perplexity (low is good)": lambda run: run["valid_perplexity"],
    "BLEU (high is good)": lambda run: run["bleu"]["tokenized"]["score"],
}


def _ends(
    figure: Any,
    boxes: Sequence[Tuple[float, float, float, float]],
    runs: Dict[str, List[Any]],
    looks: Dict[str, Series],
    ends: Dict[str, Callable[[Any], float]],
) -> None:
    """Values of the systems' seeds and their mean, in a panel for each value; systems in the order of perplexity."""
    order = sorted(runs, key=lambda name: np.mean([run["valid_perplexity"] for run in runs[name]]))
    for number, (box, (title, value)) in enumerate(zip(boxes, ends.items())):
        axes = figure.add_axes(box)
        style(axes, title, grid="x")
        for row, name in enumerate(order):
            values = [value(run) for run in runs[name]]
            axes.scatter(values, [row] * len(values), 24, color=looks[name].colour, marker=looks[name].marker)
            if len(values) > 1:
                axes.vlines(np.mean(values), row - 0.32, row + 0.32, color=looks[name].colour, linewidth=2)
        axes.set_yticks(range(len(order)), order)
        axes.tick_params(labelleft=number == 0)
        axes.invert_yaxis()


def multi30k(path: Path) -> None:
    """Fifteen epochs at a learning rate of 3e-3: mean perplexity by epoch of every system, and perplexity and BLEU of
    each seed at the end."""
    found = results("multi30k-de-en-epoch15-lr3e-3")
    runs = {name.replace("_additive", ", additive"): seeds for name, seeds in found.items()}
    order = sorted(runs, key=lambda name: np.mean([run["valid_perplexity"] for run in runs[name]]))
    looks = dict(zip(order, series_of(len(order))))
    with canvas("multi30k", (7.8, 0.32 * len(order) + 0.6)) as figure:
        axes = figure.add_axes((0, 0, 0.33, 0.92))
        style(axes, "validation perplexity by epoch", grid="y")
        for name, look in looks.items():
            means = np.mean([list(run["valid_perplexities"].values()) for run in runs[name]], axis=0)
            epochs = range(2, len(means) + 1)  # the first is far above the others
            axes.plot(epochs, means[1:], marker=look.marker, markersize=3.5, color=look.colour, linewidth=1.3)
        axes.set_xticks(epochs[::2])
        _logarithmic(axes, (5, 6, 7, 8, 10))
        axes.set_xlabel("epoch", fontsize=9)
        _ends(figure, [(0.53, 0, 0.22, 0.92), (0.78, 0, 0.22, 0.92)], runs, looks, ENDS)
        save(figure, path)


# in the order of the legend
OBJECTIVES = ("soft", "marginal-scratch", "elbo-enum", "elbo-sum-and-sample")


def latent(path: Path) -> None:
    """Validation perplexity by epoch of the objectives of latent alignment, a line for each training."""
    systems = results("multi30k-de-en-small-epoch15-lr3e-3")
    runs = {name: systems[f"small-{name}"] for name in OBJECTIVES}
    with canvas("latent", (5.2, 2.7)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="y")
        _trainings(axes, {f"{system} ({len(seeds)})": seeds for system, seeds in runs.items()})
        _logarithmic(axes, (4, 5, 7, 10, 15, 20))
        axes.set_xlabel("epoch", fontsize=9)
        axes.set_ylabel("validation perplexity", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.01, 1))
        save(figure, path)


def tatoeba(path: Path) -> None:
    """Validation perplexity by epoch on two corpora of Tatoeba, a line for each training."""
    panels = (
        ("English-Spanish", "tatoeba-en-es-epoch12", (3, 4, 5, 6, 8, 10)),
        ("English-Vietnamese", "tatoeba-en-vi-epoch30", (25, 35, 50, 100, 150)),
    )
    names = ("lstm_soft", "lstm_adm")
    with canvas("tatoeba", (7.4, 2.5)) as figure:
        for number, (title, file, ticks) in enumerate(panels):
            axes = figure.add_axes((number * 0.43, 0, 0.36, 1))
            style(axes, title, grid="y")
            systems = results(file)
            _trainings(axes, {name: systems[name] for name in names})
            _logarithmic(axes, ticks)
            epochs = len(systems["lstm_soft"][0]["valid_perplexities"])
            axes.set_xticks(range(0, epochs + 1, epochs // 6))
            axes.set_xlabel("epoch", fontsize=9)
            if number == 0:
                axes.set_ylabel("validation perplexity", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.01, 1))
        save(figure, path)


def _trainings(axes: Any, systems: Dict[str, List[Any]]) -> None:
    """Validation perplexity by epoch, a line for each training; systems by their labels."""
    for (system, seeds), look in zip(systems.items(), series_of(len(systems))):
        for number, run in enumerate(seeds):
            epochs, values = zip(*((int(epoch), value) for epoch, value in run["valid_perplexities"].items()))
            label = None if number else system
            axes.plot(epochs, values, marker=look.marker, markersize=4, color=look.colour, label=label, linewidth=1.5)


def _logarithmic(axes: Any, ticks: Sequence[int]) -> None:
    axes.set_yscale("log")
    axes.set_yticks(ticks, [str(tick) for tick in ticks])
    axes.set_yticks([], minor=True)
