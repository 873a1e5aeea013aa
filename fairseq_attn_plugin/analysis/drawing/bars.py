"""Draws grouped bars of several systems."""

from __future__ import annotations

from typing import Mapping, Optional, Sequence

from fairseq_attn_plugin.analysis.drawing.canvas import (
    FRAME,
    MUTED,
    PAPER,
    Series,
    canvas,
    check_drawing,
    literal,
    save,
    series_of,
)
from fairseq_attn_plugin.writing import PathLike

_BAR, _LETTER = 0.11, 0.085  # inches; the names under neighbouring groups stay apart


def grouped_bars(
    groups: Sequence[str],
    series: Mapping[str, Sequence[Optional[float]]],
    path: PathLike,
    title: Optional[str] = None,
    axes_labels: Sequence[str] = ("", ""),
    first_is_reference: bool = False,
) -> None:
    """Draw a group of bars for each of ``groups``, with one bar for each of ``series``, to ``path``.

    Args:
        groups: names under the groups
        series: {label: a value for each group}; None draws no bar
        path: its suffix is the format (PNG, SVG or PDF)
        title: above the picture
        axes_labels: of the groups and of the values
        first_is_reference: draw the first series in grey, since the others are compared with it

    Raises:
        ValueError: no groups or no series, or a series whose length is not the number of groups
        OptionError: another suffix, a path that cannot be written, or a missing matplotlib
    """
    if not groups or not series or any(len(values) != len(groups) for values in series.values()):
        raise ValueError(f"{[len(values) for values in series.values()]} values for {len(groups)} groups")
    path = check_drawing(path)
    looks = [Series(FRAME, "", "")] * first_is_reference + series_of(len(series) - first_is_reference)
    group = max(_BAR * (len(series) + 2), _LETTER * (max(map(len, groups)) + 1))
    size = (max(3.2, group * len(groups)), 2.8)
    # margins do not matter: the picture is cropped to its content
    with canvas("bars", size) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        width = 0.84 / len(series)
        handles = []
        for number, (values, look) in enumerate(zip(series.values(), looks)):
            shown = [(place, value) for place, value in enumerate(values) if value is not None]
            left = (number + 0.5) * width - 0.42
            places, heights = [place + left for place, _ in shown], [value for _, value in shown]
            # the edge is of the paper, like the hatch: neighbours stay apart
            handles.append(
                axes.bar(places, heights, width, color=look.colour, hatch=look.hatch, edgecolor=PAPER, linewidth=0.6)
            )
        if any(value is not None and value < 0 for values in series.values() for value in values):
            axes.axhline(0, color=MUTED, linewidth=0.8)
        axes.set_xlim(-0.6, len(groups) - 0.4)
        axes.set_xticks(range(len(groups)), labels=[literal(group) for group in groups])
        axes.set_xlabel(literal(axes_labels[0]))
        axes.set_ylabel(literal(axes_labels[1]))
        axes.grid(axis="y")
        axes.legend(
            handles,
            [literal(label) for label in series],
            loc="upper left",
            bbox_to_anchor=(1.02, 1),
            borderaxespad=0,
            frameon=False,
            fontsize=8.5,
        )
        if title:
            axes.set_title(literal(title), loc="left", fontsize=10, weight="bold", pad=8)
        save(figure, path)
