"""Checks the file name of a picture, makes its canvas, and saves it."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import warnings
from pathlib import Path
from typing import Any, Iterator, Optional, Set, Tuple, Union

import numpy as np

from fairseq_attn_plugin.analysis.drawing.colours import LIGHT, Theme
from fairseq_attn_plugin.analysis.drawing.fonts import families
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_file

__all__ = ["SUFFIXES", "canvas", "check_drawing", "save"]


SUFFIXES = (".png", ".svg", ".pdf")
_MISSING_GLYPH = re.compile(r"Glyph (\d+) .*missing from")


def check_drawing(path: Union[str, os.PathLike[str]]) -> Path:
    """``path`` as a ``Path``, if this machine can draw a picture of its format.

    Raises ``OptionError`` for a suffix other than PNG, SVG and PDF, or without matplotlib
    (``pip install 'fairseq_attn_plugin[analysis]'``).
    """
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise OptionError(f"{path}: cannot draw {path.suffix or 'a file without suffix'}; use {', '.join(SUFFIXES)}")
    # fairseq sets the root logger to DEBUG, and matplotlib logs much about fonts
    logger = logging.getLogger("matplotlib")
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.WARNING)
    try:
        # the object interface only: pyplot keeps state and looks for a display
        import matplotlib.backends.backend_agg  # noqa: F401
    except ImportError:
        raise OptionError("drawing needs matplotlib: pip install 'fairseq_attn_plugin[analysis]'") from None
    return path


@contextlib.contextmanager
def canvas(
    salt: str, size: Tuple[float, float], missing: Optional[Set[str]] = None, theme: Theme = LIGHT
) -> Iterator[Any]:
    """A figure to draw on and to :func:`save`; its settings hold within the block.

    The text in an SVG stays text, and the same picture with the same ``salt`` gives the same file.

    Args:
        salt: for the identifiers in an SVG
        size: in inches
        missing: receives the characters that no installed font contains; the picture shows them as boxes
        theme: the colours of paper, text and axes
    """
    # the object interface only: pyplot keeps state and looks for a display
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": salt, "font.family": families(), **theme.settings()}
    with rc_context(settings), _glyphs(set() if missing is None else missing):
        figure = Figure(figsize=size)
        FigureCanvasAgg(figure)
        yield figure


@contextlib.contextmanager
def _glyphs(missing: Set[str]) -> Iterator[None]:
    """Collects the characters that matplotlib warns about, in place of the warnings."""
    with warnings.catch_warnings():
        show = warnings.showwarning

        def collect(message: Any, *details: Any, **named: Any) -> None:
            glyph = _MISSING_GLYPH.match(str(message))
            if glyph is None:
                show(message, *details, **named)
            else:
                missing.add(chr(int(glyph[1])))

        warnings.filterwarnings("always", message=_MISSING_GLYPH.pattern)
        warnings.showwarning = collect
        yield


def save(figure: Any, path: Path) -> None:
    """Writes a figure; the file appears when it is complete. The picture is cropped to its content.

    Raises ``OptionError`` if it cannot be written.
    """
    suffix = path.suffix.lower()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    # at most 4e7 points, which fit into memory, and no side above 6e4
    resolution = min(150.0, (4e7 / np.prod(figure.get_size_inches())) ** 0.5, 6e4 / max(figure.get_size_inches()))
    with whole_file(path, f"{path}: cannot write the picture") as partial:
        figure.savefig(
            partial, format=suffix[1:], dpi=resolution, metadata=metadata, bbox_inches="tight", pad_inches=0.12
        )
