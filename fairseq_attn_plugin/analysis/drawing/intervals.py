"""Draws a row for each system: a mean with its interval, and a diamond for each seed."""

from __future__ import annotations

from typing import NamedTuple, Optional, Sequence

from fairseq_attn_plugin.analysis.drawing.canvas import (
    MUTED,
    SERIES_COLOURS,
    canvas,
    check_drawing,
    literal,
    save,
)
from fairseq_attn_plugin.writing import PathLike

_MEAN, _SEED = SERIES_COLOURS[:2]


class Row(NamedTuple):
    """A system."""

    label: str
    mean: float
    interval: float  # half of its length
    seeds: Sequence[float]  # the values that the mean is of


def draw_intervals(rows: Sequence[Row], path: PathLike, label: str, reference: Optional[float] = None) -> None:
    """Draw the rows from top to bottom to ``path``.

    Args:
        rows: at least one
        path: its suffix is the format (PNG, SVG or PDF)
        label: of the values
        reference: value of a vertical line

    Raises:
        OptionError: another suffix, a path that cannot be written, or a missing matplotlib
    """
    path = check_drawing(path)
    with canvas("intervals", (5.0, 0.5 + 0.28 * len(rows))) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        if reference is not None:
            axes.axvline(reference, color=MUTED, linewidth=0.8, linestyle=(0, (4, 3)))
        places = range(len(rows))
        axes.errorbar(
            [row.mean for row in rows],
            places,
            xerr=[row.interval for row in rows],
            fmt="o",
            color=_MEAN,
            markersize=5,
            elinewidth=1.6,
            capsize=2.5,
        )
        dots = [(value, place + 0.26) for place, row in zip(places, rows) for value in row.seeds]
        axes.scatter(
            [value for value, _ in dots], [place for _, place in dots], s=13, marker="D", color=_SEED, linewidths=0
        )
        axes.set_yticks(places, labels=[literal(row.label) for row in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel(literal(label))
        axes.grid(axis="x")
        save(figure, path)
