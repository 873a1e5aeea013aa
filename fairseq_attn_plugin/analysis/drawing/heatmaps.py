"""Draws attention matrices as heatmaps, side by side on one scale."""

import math
import textwrap
from pathlib import Path
from typing import Any, Collection, NamedTuple, Sequence, Union

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
_LETTER = 0.08  # inches, of a token's label
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
    """Draw matrices side by side to ``path``, in boxes of one size and on one scale.

    A dark cell has a great weight. The scale runs from 0 to 1, or to the greatest weight if that is above 1. Source
    tokens are above each panel. Target tokens are at its left, unless the panel before has the same tokens. Panels
    continue in another row if the picture is too wide for a screen. Long sentences have smaller cells. The suffix of
    ``path`` is the format (PNG, SVG or PDF). The text in an SVG stays text.

    matplotlib warns of characters that no installed font contains; PNG and PDF show them as boxes.
    Raises ``OptionError`` for another suffix, a path that cannot be written, or without matplotlib
    (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    panels = [panel._replace(weights=np.asarray(panel.weights, dtype=float)) for panel in panels]
    path = check_drawing(path)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    greatest = max(1.0, *(float(panel.weights.max(initial=0.0)) for panel in panels))
    rows, columns = (max(max(panel.weights.shape[side] for panel in panels), 2) for side in (0, 1))
    cell = min(_CELL, max(_LEAST_CELL, _CELL * _LONG / max(rows, columns)))
    left, above = (
        _LETTER * max(len(_clip(token)) for panel in panels for token in ("", *getattr(panel, side)))
        for side in ("target", "source")
    )
    # smaller cells, if all panels then fit into one row
    fitting = (_WIDTH / len(panels) - left) / columns
    cell = min(cell, fitting) if fitting >= _SMALL_CELL else cell
    beside = min(len(panels), max(1, int(_WIDTH / (cell * columns + left))))
    below = math.ceil(len(panels) / beside)
    size = beside * (cell * columns + left) + 1, below * (cell * rows + above + 0.7)
    with canvas("attention", size) as figure:
        figure.set_layout_engine("constrained", h_pad=0.1, w_pad=0.1)
        places = figure.subplots(below, beside, squeeze=False).flatten()
        for place in places[len(panels) :]:
            place.remove()
        for number, (axes, panel) in enumerate(zip(places, panels)):
            _draw_panel(axes, panel, greatest, 9 if cell >= _SMALL_CELL else 7.5)
            title = textwrap.fill(panel.label, max(8, int(cell * columns / _LETTER)))
            axes.set_title(literal(title), loc="left", fontsize=10, weight="bold")
            named = number % beside == 0 or tuple(panel.target) != tuple(panels[number - 1].target)
            axes.tick_params(labelleft=named)
        _legend(places, panels)
        ticks = [0, greatest / 2, greatest]
        scale = ScalarMappable(Normalize(0, greatest), SCALE)
        shrink = min(0.5, 1.6 / size[1])
        bar = figure.colorbar(
            scale, ax=list(places[: len(panels)]), ticks=ticks, shrink=shrink, aspect=15, anchor=(0, 1)
        )
        bar.ax.set_yticklabels([f"{value:.3g}" for value in ticks])
        bar.ax.tick_params(labelsize=8, length=2)
        save(figure, path)


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


def _legend(places: Sequence[Any], panels: Sequence[Panel]) -> None:
    """Explains the boxes around cells, below the first panel that has any."""
    for axes, panel in zip(places, panels):
        if panel.gold or panel.possible:
            text = "\u25a1 gold link" + (", dashed: only possible" if {*panel.possible} - {*panel.gold} else "")
            axes.set_xlabel(text, loc="left", color=_GOLD, fontsize=8)
            return
