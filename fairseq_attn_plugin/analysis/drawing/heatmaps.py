"""Draws attention matrices as heatmaps, side by side on one scale."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Collection, List, NamedTuple, Sequence, Tuple, Union

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.drawing.canvas import (
    MUTED,
    SCALE,
    SERIES_COLOURS,
    canvas,
    check_drawing,
    literal,
    save,
)

_CELL = 0.34  # inches: room for a label of 9 points
_SMALL_CELL = 0.2  # the least for a label of 9 points
_LEAST_CELL = 0.15  # room for a label of 7.5 points
_LONG = 30  # tokens; longer sentences have smaller cells
_WIDTH = 18.0  # inches; a picture is wider only if one panel is
_GAP = 0.3  # inches between panels
_LONGEST_LABEL = 30  # characters
_GOLD = SERIES_COLOURS[1]


class Panel(NamedTuple):
    """One matrix of a picture: a row per target token, a column per source token."""

    weights: np.ndarray  # [T, N]
    source: Sequence[str]
    target: Sequence[str]
    label: str = ""
    gold: Collection[Link] = ()  # links (source, target), a box around their cell
    possible: Collection[Link] = ()  # possible links, a dashed box


def heatmaps(panels: Sequence[Panel], path: Union[str, Path]) -> None:
    """Draw matrices side by side to ``path``, on one scale.

    A dark cell has a great weight. The scale runs from 0 to 1, or to the greatest weight if that is above 1. Source
    tokens are above each panel. Target tokens are at its left, unless the panel before has the same tokens. Panels
    continue in another row if the picture is too wide for a screen. Long sentences have smaller cells. The suffix of
    ``path`` is the format (PNG, SVG or PDF). The text in an SVG stays text.

    matplotlib warns of characters that no installed font contains; PNG and PDF show them as boxes.
    Raises ``ValueError`` without panels or if weights or links do not fit the tokens, ``OptionError`` for another
    suffix, a path that cannot be written, or without matplotlib (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    panels = [panel._replace(weights=np.asarray(panel.weights, dtype=float)) for panel in panels]
    if not panels:
        raise ValueError("no panels to draw")
    for panel in panels:
        _check_panel(panel)
    path = check_drawing(path)
    greatest = max(1.0, *(float(panel.weights.max(initial=0.0)) for panel in panels))
    cell = _cell(panels)
    # an inch: positions are inches until all sizes are known
    with canvas("attention", (1, 1)) as figure:
        boxes = []
        for panel in panels:
            axes = figure.add_axes((0, 0, cell * max(len(panel.source), 2), cell * max(len(panel.target), 1)))
            _draw_panel(axes, panel, greatest, 9 if cell >= _SMALL_CELL else 7.5)
            boxes.append(_Box(axes, panel, _margins(axes), _text_width(figure, panel.label)))
        _legend(boxes)
        _arrange(figure, boxes, greatest)
        save(figure, path)


def _cell(panels: Sequence[Panel]) -> float:
    """The size of a cell in inches: smaller for long sentences, and if all panels then fit into one row."""
    longest = max(max(panel.weights.shape) for panel in panels)
    cell = min(_CELL, max(_LEAST_CELL, _CELL * _LONG / max(longest, 1)))
    columns = sum(max(panel.weights.shape[1], 2) for panel in panels)
    beside = 0.9 * (_WIDTH - _GAP * len(panels)) / columns  # a tenth of the width is for target tokens
    return min(cell, beside) if beside >= _SMALL_CELL else cell


class _Box(NamedTuple):
    """A drawn panel; lengths are in inches."""

    axes: Any
    panel: Panel
    margins: Tuple[float, float]  # for target tokens at the left, source tokens above
    label_width: float

    @property
    def size(self) -> Tuple[float, float]:
        bounds = self.axes.get_position()
        return bounds.width, bounds.height


def _check_panel(panel: Panel) -> None:
    rows, columns = len(panel.target), len(panel.source)
    if panel.weights.shape != (rows, columns):
        raise ValueError(f"weights of shape {panel.weights.shape} for {rows} target and {columns} source tokens")
    links = sorted({*panel.gold, *panel.possible})
    outside = [link for link in links if not (0 <= link[0] < columns and 0 <= link[1] < rows)]
    if outside:
        raise ValueError(f"gold link {outside[0]} is outside {columns} source and {rows} target tokens")


def _draw_panel(axes: Any, panel: Panel, greatest: float, size: float) -> None:
    """Draws the cells, their boxes, and the tokens in ``size`` points."""
    from matplotlib.patches import Rectangle

    rows, columns = panel.weights.shape
    if panel.weights.size:
        axes.imshow(panel.weights, cmap=SCALE, vmin=0, vmax=greatest, aspect="auto", interpolation="nearest")
    else:
        axes.set(xlim=(-0.5, max(columns, 1) - 0.5), ylim=(max(rows, 1) - 0.5, -0.5))
        axes.text(0.5, 0.5, "no words", ha="center", va="center", transform=axes.transAxes, fontsize=8, color=MUTED)
    labels = [[literal(_clip(token)) for token in tokens] for tokens in (panel.source, panel.target)]
    axes.set_xticks(range(columns), labels=labels[0], fontsize=size, rotation=90)
    axes.set_yticks(range(rows), labels=labels[1], fontsize=size)
    axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
    axes.tick_params(length=0, labeltop=True, labelbottom=False, pad=4)
    axes.grid(which="minor")
    axes.tick_params(which="minor", length=0)
    for source, target in sorted({*panel.gold, *panel.possible}):
        style = "solid" if (source, target) in panel.gold else (0, (1.6, 1.6))
        corner = (source - 0.43, target - 0.43)
        axes.add_patch(Rectangle(corner, 0.86, 0.86, fill=False, edgecolor=_GOLD, linewidth=1.4, linestyle=style))


def _clip(token: str) -> str:
    return token if len(token) <= _LONGEST_LABEL else token[: _LONGEST_LABEL - 1] + "\u2026"


def _margins(axes: Any) -> Tuple[float, float]:
    figure = axes.figure
    around = axes.get_tightbbox(figure.canvas.get_renderer())
    return max(0.0, -around.x0 / figure.dpi), max(0.0, around.y1 / figure.dpi - axes.get_position().height)


def _text_width(figure: Any, text: str) -> float:
    label = figure.text(0, 0, literal(text), fontsize=10, weight="bold")
    width = label.get_window_extent(figure.canvas.get_renderer()).width / figure.dpi
    label.remove()
    return width


def _legend(boxes: Sequence[_Box]) -> None:
    """Explains the boxes around cells, below the first panel that has any."""
    for axes, panel, _, _ in boxes:
        if panel.gold or panel.possible:
            text = "\u25a1 gold link" + (", dashed: only possible" if {*panel.possible} - {*panel.gold} else "")
            legend = axes.annotate(text, (0, 0), (0, -6), "axes fraction", "offset points", va="top")
            legend.set(color=_GOLD, fontsize=8)
            return


def _arrange(figure: Any, boxes: Sequence[_Box], greatest: float) -> None:
    """Places panels in rows, writes their labels, and adds the scale."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    rows: List[List[_Box]] = []
    lefts: List[float] = []  # of the boxes, in order
    right = 0.0
    for number, box in enumerate(boxes):
        named = not rows or tuple(box.panel.target) != tuple(boxes[number - 1].panel.target)
        width = max(box.size[0], box.label_width)
        left = right + (box.margins[0] + _GAP if named else _GAP)
        if not rows or left + width > _WIDTH:
            rows.append([])
            named, left = True, box.margins[0]
        box.axes.tick_params(labelleft=named)
        rows[-1].append(box)
        lefts.append(left)
        right = left + width
    widest = max(left + max(box.size[0], box.label_width) for left, box in zip(lefts, boxes))
    heights = [(max(box.margins[1] for box in row) + 0.3, max(box.size[1] for box in row) + 0.35) for row in rows]
    width, height = widest + 0.6, sum(map(sum, heights))
    figure.set_size_inches(width, height)
    top, places = height, iter(lefts)
    for row, (above, below) in zip(rows, heights):
        for (axes, panel, _, _), left in zip(row, places):
            size = axes.get_position().size
            axes.set_position((left / width, (top - above - size[1]) / height, size[0] / width, size[1] / height))
            axes.annotate(
                literal(panel.label),
                (0, 1),
                (0, 72 * (above - 0.3) + 6),
                "axes fraction",
                "offset points",
                fontsize=10,
                weight="bold",
            )
        top -= above + below
    bar_height = min(max(box.size[1] * height for box in rows[0]), 1.6)
    bar = figure.add_axes(
        ((widest + 0.15) / width, 1 - (heights[0][0] + bar_height) / height, 0.11 / width, bar_height / height)
    )
    figure.colorbar(ScalarMappable(Normalize(0, greatest), SCALE), cax=bar)
    bar.set_yticks([0, greatest / 2, greatest], labels=[f"{value:.3g}" for value in (0, greatest / 2, greatest)])
    bar.tick_params(labelsize=8, length=2)
