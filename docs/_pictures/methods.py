"""Alignment error rates of the methods of ``fairseq-attn align``, read from the files in benchmarks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save
from fairseq_attn_plugin.analysis.drawing.colours import series_of

from .common import GREY, style
from .measured import BENCHMARKS

METHODS = ("attention", "posterior", "loo", "saliency")


def alignment_methods(path: Path) -> None:
    """Left the error rate of each method for each system, right that of students of the methods' links."""
    files = sorted((BENCHMARKS / "results" / "toy-corpus-alignments").glob("*.json"))
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    systems = {one["system"]: one["methods"] for one in found if "teacher" not in one}
    students = {one["teacher"]: one["methods"] for one in found if "teacher" in one}
    with canvas("alignment methods", (7.2, 2.9)) as figure:
        axes = figure.add_axes((0, 0, 0.56, 0.92))
        style(axes, "links of a system, by method", grid="x")
        names = sorted(systems, key=lambda name: _errors(systems[name], "attention"))
        for method, look in zip(METHODS, series_of(len(METHODS))):
            values = [_errors(systems[name], method) for name in names]
            axes.scatter(values, range(len(names)), color=look.colour, marker=look.marker, s=34, label=method, zorder=3)
        axes.legend(frameon=False, fontsize=8, loc="upper right")
        _rows(axes, names)
        axes = figure.add_axes((0.74, 0, 0.3, 0.92))
        style(axes, "attention of students", grid="x")
        taught = sorted(students)
        values = [_errors(students[name], "attention") for name in taught]
        colours = {method: look.colour for method, look in zip(METHODS, series_of(len(METHODS)))}
        axes.barh(range(len(taught)), values, 0.6, color=[colours.get(name, GREY) for name in taught])
        axes.axvline(_errors(systems["soft"], "attention"), color="#495057", linewidth=1, linestyle="--")
        _rows(axes, taught)
        save(figure, path)


def _errors(methods: Dict[str, Any], name: str) -> float:
    return 100 * float(methods[name]["aer"])


def _rows(axes: Any, names: List[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("alignment error rate, per cent", fontsize=9)
