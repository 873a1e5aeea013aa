"""Draws a histogram of the distances between target words and the source words that they attend to."""

from __future__ import annotations

from pathlib import Path
from typing import Mapping, Optional, Tuple, Union

import numpy as np

from fairseq_attn_plugin.analysis.drawing.canvas import BAND, INK, SERIES_COLOURS, canvas, check_drawing, save

_CHOICES, _GAUSSIAN, _ATTENTION = SERIES_COLOURS[0], SERIES_COLOURS[1], SERIES_COLOURS[5]


def offset_histogram(
    offsets: np.ndarray,
    mass: np.ndarray,
    first_choices: np.ndarray,
    gaussians: Mapping[str, Tuple[float, float, float]],
    window: float,
    path: Union[str, Path],
    title: Optional[str] = None,
) -> None:
    """Draw the distribution of the votes over ``offsets``, ascending integers, to ``path``.

    ``mass`` and ``first_choices`` are shares of all votes for each offset, drawn as bars and dots. ``gaussians`` are
    curves, {label: (mean, sigma, area)}: the area is the share of the votes that the Gaussian represents. Offsets of
    at most ``window`` on either side are shaded. Far offsets with less than a hundredth of the greatest share are left
    out.
    The suffix of ``path`` is the format (PNG, SVG or PDF).
    Raises ``ValueError`` for different lengths or no offsets, ``OptionError`` for another suffix, a path that cannot be
    written, or without matplotlib (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    offsets, mass, first_choices = (np.asarray(values, dtype=float) for values in (offsets, mass, first_choices))
    if not offsets.size or not offsets.shape == mass.shape == first_choices.shape:
        raise ValueError(f"{offsets.shape} offsets for votes of shape {mass.shape} and {first_choices.shape}")
    path = check_drawing(path)
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    votes = np.maximum(mass, first_choices)
    voted = np.flatnonzero(votes >= 0.01 * votes.max())
    reach = max(window + 1, 3, np.abs(offsets[voted]).max(initial=0))
    shown = np.abs(offsets) <= reach
    with canvas("offsets", (6.4, 3.4)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axvspan(-window - 0.5, window + 0.5, color=BAND, label=f"window, k = {window:.2f} on average")
        axes.bar(offsets[shown], mass[shown], width=0.8, color=_ATTENTION, label="attention")
        axes.plot(
            offsets[shown],
            first_choices[shown],
            linestyle="",
            marker="o",
            markersize=4,
            color=_CHOICES,
            label="first choices",
        )
        line = np.linspace(-reach - 0.5, reach + 0.5, 1001)
        for number, (label, (mean, sigma, area)) in enumerate(gaussians.items()):
            # scaled by its sum over the integers, like a mask over positions
            near = np.arange(np.floor(mean - 8 * sigma) - 1, np.ceil(mean + 8 * sigma) + 2)
            height = area / np.exp(-0.5 * ((near - mean) / sigma) ** 2).sum()
            axes.plot(
                line,
                height * np.exp(-0.5 * ((line - mean) / sigma) ** 2),
                color=(_GAUSSIAN, INK)[number % 2],
                linestyle="-" if number == 0 else "--",
                linewidth=1.6,
                label=f"{label}: mean {mean:.2f}, sigma {sigma:.2f}",
            )
        axes.set_xlim(-reach - 0.5, reach + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=15, integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel("source position minus position of the target word, in words")
        axes.set_ylabel("share of the votes")
        axes.grid(axis="y")
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0, frameon=False, fontsize=8.5)
        if title:
            axes.set_title(title, loc="left", fontsize=10, weight="bold", pad=8)
        save(figure, path)
