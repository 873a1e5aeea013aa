"""Alignment error rates of the methods of ``fairseq-attn align``, read from the files in benchmarks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save, series_of

from .common import results, style

METHODS = ("attention", "posterior", "loo", "saliency")
LEARNT = 50  # BLEU; a system with a seed below it stands in the table only


def alignment_methods(path: Path) -> None:
    """Left the error rate of each method for each system, the mean of its seeds; right that of students of links."""
    systems = {
        name: [run["methods"] for run in runs]
        for name, runs in results("toy-corpus-methods").items()
        if min(run["bleu"] for run in runs) >= LEARNT
    }
    looks = dict(zip(METHODS, series_of(len(METHODS))))
    with canvas("alignment methods", (7.2, 3.6)) as figure:
        axes = figure.add_axes((0, 0, 0.5, 0.94))
        style(axes, "links of a system, by method", grid="x")
        names = sorted(systems, key=lambda name: _mean(systems[name], "attention"))
        for method, look in looks.items():
            values = [_mean(systems[name], method) for name in names]
            axes.scatter(values, range(len(names)), color=look.colour, marker=look.marker, s=34, label=method, zorder=3)
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.68, 1))
        _rows(axes, names)
        axes = figure.add_axes((0.74, 0.24, 0.3, 0.7))
        style(axes, "attention of students", grid="x")
        for method, runs in results("toy-corpus-students").items():
            values, places = [100 * run["aer"] for run in runs], [METHODS.index(method)] * len(runs)
            axes.scatter(values, places, color=looks[method].colour, marker=looks[method].marker, s=34, zorder=3)
        axes.axvline(_mean(systems["soft"], "attention"), color="#495057", linewidth=1, linestyle="--")
        _rows(axes, list(METHODS))
        save(figure, path)


def _mean(seeds: List[Dict[str, Any]], method: str) -> float:
    return 100 * sum(float(one[method]["aer"]) for one in seeds) / len(seeds)


def _rows(axes: Any, names: List[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("alignment error rate, per cent", fontsize=9)
