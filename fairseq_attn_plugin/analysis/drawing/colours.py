"""Colours, markers and hatches of all pictures, on light and on dark paper.

The colours are those of Okabe and Ito, "Color Universal Design: how to make figures and presentations that are friendly
to colorblind people" (2008). A marker or a hatch beside each colour tells series apart without any colour.
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple

__all__ = ["DARK", "LIGHT", "SERIES_COLOURS", "Series", "Theme", "series_of"]


class Theme(NamedTuple):
    """The paper of a picture, and what is drawn on it. The papers are the surfaces of ``pages/assets/base.css``."""

    paper: str
    ink: str
    muted: str
    frame: str  # of axes, and their ticks
    grid: str
    band: str  # behind a range of values
    scale: Any  # of heatmaps: matplotlib's name of a colour map, or its colours in order

    def settings(self) -> Dict[str, Any]:
        """Settings of matplotlib."""
        return {
            **dict.fromkeys(["figure.facecolor", "axes.facecolor", "hatch.color"], self.paper),
            **dict.fromkeys(["text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"], self.ink),
            **dict.fromkeys(["axes.edgecolor", "xtick.color", "ytick.color"], self.frame),
            **{"grid.color": self.grid, "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.labelsize": 9},
            **dict.fromkeys(["xtick.labelsize", "ytick.labelsize"], 8),
            **dict.fromkeys(["xtick.major.size", "ytick.major.size"], 2.5),
        }

    def colour_map(self) -> Any:
        """From the paper's colour (weight 0) to the strongest."""
        if isinstance(self.scale, str):
            return self.scale
        from matplotlib.colors import LinearSegmentedColormap

        return LinearSegmentedColormap.from_list("weights", self.scale)


LIGHT = Theme("#ffffff", "#1a1d21", "#5b646e", "#b8c2cc", "#e3e8ee", "#f1f3f5", "Blues")
_DARK_SCALE = ("#1b1e22", "#1d4576", "#3f83cf", "#9ccbff", "#f0f7ff")
DARK = Theme("#1b1e22", "#e9ebee", "#9da6b0", "#5c666f", "#30353b", "#262b31", _DARK_SCALE)

# yellow (#F0E442) is left out: on white it is hardly visible; the two palest come last
SERIES_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_HATCHES = ("", "////", "....", "\\\\\\\\", "xxxx", "----", "oooo")


class Series(NamedTuple):
    """How one system or run is drawn."""

    colour: str
    marker: str  # of lines
    hatch: str  # of bars


def series_of(count: int, theme: Theme = LIGHT) -> List[Series]:
    """The drawing of ``count`` systems: seven colours, the seventh that of the text.

    No two of 49 have both the same colour and the same marker, or the same colour and the same hatch.
    """
    colours, size = (*SERIES_COLOURS, theme.ink), len(_MARKERS)
    other = [(number + number // size) % size for number in range(count)]
    return [Series(colours[number % size], _MARKERS[at], _HATCHES[at]) for number, at in enumerate(other)]
