"""Colours, axes and files of all pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence

import numpy as np
from PIL import Image

from fairseq_attn_plugin.analysis.drawing.canvas import INK, SERIES_COLOURS

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
GREY, LIGHT = "#868e96", "#ced4da"
BLUE, ORANGE, GREEN = SERIES_COLOURS[:3]
_HATCHES = ("", "////", "....")
# of a box within a cell of a heatmap, from the middle of the cell
CORNERS = ((-0.46, -0.46), (0.46, -0.46), (0.46, 0.46), (-0.46, 0.46), (-0.46, -0.46))


class Series(NamedTuple):
    """How one system or run is drawn."""

    colour: str
    marker: str


def series_of(count: int) -> List[Series]:
    """The drawing of at most seven systems."""
    return [Series(*look) for look in zip((*SERIES_COLOURS, INK), "os^DvPX")][:count]


def results(name: str) -> Dict[str, List[Any]]:
    """The runs SYSTEM.seedN of ``benchmarks/results/NAME.jsonl``, by system."""
    systems: Dict[str, List[Any]] = {}
    for line in (BENCHMARKS / f"results/{name}.jsonl").read_text(encoding="utf-8").splitlines():
        run = json.loads(line)
        systems.setdefault(run["run"].partition(".seed")[0], []).append(run)
    return systems


def style(axes: Any, title: str = "", grid: str = "") -> None:
    """The frame, the grid and the title that all axes have in common."""
    axes.spines[:].set_color(LIGHT)
    axes.tick_params(labelsize=8, length=2.5, color=LIGHT)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis=grid, color="#e3e8ee", linewidth=0.6)
    if title:
        axes.set_title(title, loc="left", fontsize=9.5, weight="bold", pad=6)


def bars(axes: Any, series: Dict[str, Sequence[float]], colours: Sequence[str]) -> None:
    """Groups of bars, one bar of each of ``series`` at every position counted from 1."""
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = np.arange(1, len(values) + 1) + (number + 0.5) * width - 0.4
        axes.bar(places, values, width, label=label, color=colours[number], hatch=_HATCHES[number], edgecolor="white")
    axes.set_xticks(range(1, len(values) + 1))


def shrink(path: Path) -> None:
    """Writes a PNG again with 256 colours, which takes a third of the space."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256)
    small.save(path, optimize=True)
