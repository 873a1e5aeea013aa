"""Pictures of attention."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Iterable, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from fairseq_attn_plugin.errors import OptionError

SUFFIXES = (".png", ".svg", ".pdf")
_CELL = 0.34  # inches: room for a label of 9 points
_GOLD = "#d9480f"
_CURVES = ("#d9480f", "#495057")


def check_drawing(path: Union[str, os.PathLike[str]]) -> Path:
    """``path``, if a picture of its kind can be drawn here.

    Raises ``OptionError`` for another suffix than those of PNG, SVG and PDF, or without matplotlib
    (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"{path}: cannot draw {path.suffix or 'a file without suffix'}; use {', '.join(SUFFIXES)}")
    # importing fairseq sets the root logger to DEBUG, and matplotlib has much to say about fonts
    logger = logging.getLogger("matplotlib")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    try:
        # the object interface alone: pyplot would keep state and look for a display
        import matplotlib.backends.backend_agg  # noqa: F401
    except ImportError:
        raise OptionError("drawing needs matplotlib: pip install 'fairseq_attn_plugin[analysis]'") from None
    return path


def heatmap(
    weights: np.ndarray,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: Union[str, Path],
    title: Optional[str] = None,
    gold: Iterable[Tuple[int, int]] = (),
) -> None:
    """Draw ``weights`` [T, N] to ``path``: a row per target token, a column per source token.

    Dark is much attention; the scale runs from 0 to 1.  ``gold`` are links (source, target) that get a box around
    their cell.  The suffix of ``path`` is the format (PNG, SVG or PDF).  The text in an SVG stays text.
    Raises ``ValueError`` if weights or links do not fit the tokens, ``OptionError`` for another suffix or without
    matplotlib (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    weights = np.asarray(weights, dtype=float)
    rows, columns = len(target_tokens), len(source_tokens)
    if weights.shape != (rows, columns) or weights.size == 0:
        raise ValueError(f"weights of shape {weights.shape} for {rows} target and {columns} source tokens")
    links = sorted(set(gold))
    outside = [link for link in links if not (0 <= link[0] < columns and 0 <= link[1] < rows)]
    if outside:
        raise ValueError(f"gold link {outside[0]} is outside {columns} source and {rows} target tokens")
    path = check_drawing(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    grid_width, grid_height = _CELL * columns, _CELL * rows
    bar_height = min(grid_height, 1.6)
    # svg.fonttype none keeps words searchable; hashsalt makes the same picture the same file
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "attention", "font.family": "DejaVu Sans"}):
        # the margins do not matter: bbox_inches cuts the picture to what is drawn, labels of any length included
        figure = Figure(figsize=(grid_width, grid_height), facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        image = axes.imshow(weights, cmap="Blues", vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        axes.set_xticks(range(columns), labels=list(source_tokens), rotation=90, fontsize=9)
        axes.set_yticks(range(rows), labels=list(target_tokens), fontsize=9)
        axes.tick_params(length=0, labeltop=True, labelbottom=False, pad=4)
        axes.set_xticks(np.arange(columns + 1) - 0.5, minor=True)
        axes.set_yticks(np.arange(rows + 1) - 0.5, minor=True)
        axes.grid(which="minor", color="#e3e8ee", linewidth=0.6)
        axes.tick_params(which="minor", length=0)
        axes.spines[:].set_color("#b8c2cc")
        for source, target in links:
            corner = (source - 0.43, target - 0.43)
            axes.add_patch(Rectangle(corner, 0.86, 0.86, fill=False, edgecolor=_GOLD, linewidth=1.4))
        bar = figure.add_axes(
            (1 + 0.15 / grid_width, 1 - bar_height / grid_height, 0.11 / grid_width, bar_height / grid_height)
        )
        figure.colorbar(image, cax=bar)
        bar.set_yticks([0, 0.5, 1], labels=["0", "0.5", "1"])
        bar.tick_params(labelsize=8, length=2)
        bar.spines[:].set_color("#b8c2cc")
        if links:
            legend = axes.annotate("\u25a1 gold link", (0, 0), (0, -6), "axes fraction", "offset points", va="top")
            legend.set(color=_GOLD, fontsize=8)
        if title:
            axes.set_title(title, loc="left", fontsize=10, weight="bold", pad=10)
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        figure.savefig(path, dpi=150, metadata=metadata, bbox_inches="tight", pad_inches=0.12)


def offset_histogram(
    offsets: np.ndarray,
    mass: np.ndarray,
    first_choices: np.ndarray,
    gaussians: Mapping[str, Tuple[float, float, float]],
    window: float,
    path: Union[str, Path],
    title: Optional[str] = None,
) -> None:
    """Draw how the votes are spread over ``offsets``, ascending integers, to ``path``.

    ``mass`` and ``first_choices`` are shares of all votes, one for each offset: bars and dots. ``gaussians`` are
    curves, {label: (mean, sigma, area)}: the area is the share of the votes that the Gaussian stands for. Offsets of
    at most ``window`` on either side are shaded. Far offsets with less than a hundredth of the greatest share are left
    out.
    The suffix of ``path`` is the format (PNG, SVG or PDF).
    Raises ``ValueError`` if lengths differ or there is no offset, ``OptionError`` for another suffix, a path that
    cannot be written, or without matplotlib (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    offsets, mass, first_choices = (np.asarray(values, dtype=float) for values in (offsets, mass, first_choices))
    if not offsets.size or not offsets.shape == mass.shape == first_choices.shape:
        raise ValueError(f"{offsets.shape} offsets for votes of shape {mass.shape} and {first_choices.shape}")
    path = check_drawing(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    votes = np.maximum(mass, first_choices)
    voted = np.flatnonzero(votes >= 0.01 * votes.max())
    reach = max(window + 1, 3, np.abs(offsets[voted]).max(initial=0))
    shown = np.abs(offsets) <= reach
    # svg.fonttype none keeps words searchable; hashsalt makes the same picture the same file
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "offsets", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(6.4, 3.4), facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.axvspan(-window - 0.5, window + 0.5, color="#f1f3f5", label=f"window, k = {window:.2f} on average")
        axes.bar(offsets[shown], mass[shown], width=0.8, color="#74add1", label="attention")
        axes.plot(
            offsets[shown],
            first_choices[shown],
            linestyle="",
            marker="o",
            markersize=4,
            color="#1864ab",
            label="first choices",
        )
        line = np.linspace(-reach - 0.5, reach + 0.5, 1001)
        for number, (label, (mean, sigma, area)) in enumerate(gaussians.items()):
            # scaled by its sum over the integers, as a mask of whole positions is
            near = np.arange(np.floor(mean - 8 * sigma) - 1, np.ceil(mean + 8 * sigma) + 2)
            height = area / np.exp(-0.5 * ((near - mean) / sigma) ** 2).sum()
            axes.plot(
                line,
                height * np.exp(-0.5 * ((line - mean) / sigma) ** 2),
                color=_CURVES[number % len(_CURVES)],
                linestyle="-" if number == 0 else "--",
                linewidth=1.6,
                label=f"{label}: mean {mean:.2f}, sigma {sigma:.2f}",
            )
        axes.set_xlim(-reach - 0.5, reach + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=15, integer=True))
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel("source position less that of the target word, in words", fontsize=9)
        axes.set_ylabel("share of the votes", fontsize=9)
        axes.tick_params(labelsize=8, length=2.5, color="#b8c2cc")
        axes.grid(axis="y", color="#e3e8ee", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.spines[:].set_color("#b8c2cc")
        axes.legend(loc="upper left", bbox_to_anchor=(1.02, 1), borderaxespad=0, frameon=False, fontsize=8.5)
        if title:
            axes.set_title(title, loc="left", fontsize=10, weight="bold", pad=8)
        metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        try:
            figure.savefig(path, dpi=150, metadata=metadata, bbox_inches="tight", pad_inches=0.12)
        except OSError as error:
            raise OptionError(f"{path}: cannot write the picture: {error.strerror or error}") from None
