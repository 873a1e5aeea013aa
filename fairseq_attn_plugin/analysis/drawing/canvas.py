"""What all pictures share: the check of a file name, the canvas, and how it is saved."""

from __future__ import annotations

import contextlib
import logging
import os
import warnings
from pathlib import Path
from typing import Any, Iterator, Sequence, Tuple, Union

import numpy as np

from fairseq_attn_plugin.analysis.drawing.fonts import BASE
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_file

__all__ = ["canvas", "check_drawing", "save"]


SUFFIXES = (".png", ".svg", ".pdf")


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


@contextlib.contextmanager
def canvas(salt: str, size: Tuple[float, float], fonts: Sequence[str] = (BASE,)) -> Iterator[Any]:
    """A white figure to draw on and to :func:`save`, of ``size`` in inches; its settings hold within the block.

    The text in an SVG stays text, the same picture with the same ``salt`` is the same file, and characters that no font
    of ``fonts`` has are boxes, without a word from matplotlib.
    """
    # the object interface alone: pyplot would keep state and look for a display
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": salt, "font.family": list(fonts)}
    with rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=size, facecolor="white")
        FigureCanvasAgg(figure)
        yield figure


def save(figure: Any, path: Path) -> None:
    """Write a figure; the file appears when it is complete. Margins are cut off: nothing is lost, whatever its length.

    Raises ``OptionError`` if it cannot be written.
    """
    suffix = path.suffix.lower()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    # a picture of so many points fits into memory
    resolution = min(150.0, (4e7 / np.prod(figure.get_size_inches())) ** 0.5, 6e4 / max(figure.get_size_inches()))
    with whole_file(path, f"{path}: cannot write the picture") as partial:
        figure.savefig(
            partial, format=suffix[1:], dpi=resolution, metadata=metadata, bbox_inches="tight", pad_inches=0.12
        )
