"""What all pictures share: fonts for words of any script, colours, the canvas, the file that is written.

The colours are those of Okabe and Ito, "Color Universal Design: how to make figures and presentations that are friendly
to colorblind people" (2008). matplotlib takes each character from the first font of ``font.family`` that has it (from
version 3.6 on).
"""

import contextlib
import logging
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple, Union

import numpy as np

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_file

BASE = "DejaVu Sans"  # part of matplotlib
# widely installed fonts that together cover most scripts; users can set font.sans-serif in matplotlibrc
_FALLBACKS = (
    "Noto Sans, Noto Sans CJK SC, Noto Sans CJK JP, Noto Sans SC, Noto Sans JP, Noto Sans KR, Noto Sans Arabic, "
    "Noto Sans Hebrew, Noto Sans Devanagari, Noto Sans Bengali, Noto Sans Tamil, Noto Sans Thai, Noto Sans Ethiopic, "
    "Noto Sans Georgian, Noto Sans Armenian, Noto Sans Khmer, WenQuanYi Zen Hei, WenQuanYi Micro Hei, Unifont, "
    "Droid Sans Fallback, IPAexGothic, Arial Unicode MS, PingFang SC, Hiragino Sans, Apple SD Gothic Neo, "
    "Microsoft YaHei, Yu Gothic, Malgun Gothic, Nirmala UI, Leelawadee UI, Segoe UI, Symbola"
).split(", ")


def literal(text: str) -> str:
    """Text that matplotlib shows unchanged, but for a ``?`` where UTF-8 cannot encode it.

    A ``$`` would begin a formula, and legends omit labels that begin with ``_``.
    """
    text = text.encode("utf-8", "replace").decode().replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def families() -> List[str]:
    """The installed fonts for ``font.family``: matplotlib's own, those of matplotlibrc, and fonts of many scripts."""
    from matplotlib import font_manager, rcParams

    installed = font_manager.get_font_names()
    return [name for name in dict.fromkeys((BASE, *rcParams["font.sans-serif"], *_FALLBACKS)) if name in installed]


# the paper is the surface of pages/assets/base.css; FRAME: of axes, and their ticks
PAPER, INK, MUTED, FRAME, GRID = "#ffffff", "#1a1d21", "#5b646e", "#b8c2cc", "#e3e8ee"
SCALE = "Blues"  # matplotlib's name of the heatmaps' colour map
_SETTINGS: Any = {
    **dict.fromkeys(["figure.facecolor", "axes.facecolor", "hatch.color"], PAPER),
    **dict.fromkeys(["text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor"], INK),
    **dict.fromkeys(["axes.edgecolor", "xtick.color", "ytick.color"], FRAME),
    **{"grid.color": GRID, "grid.linewidth": 0.6, "axes.axisbelow": True, "axes.labelsize": 9},
    **dict.fromkeys(["xtick.labelsize", "ytick.labelsize"], 8),
    **dict.fromkeys(["xtick.major.size", "ytick.major.size"], 2.5),
}

# yellow (#F0E442) is left out: on white it is hardly visible; the two palest come last
SERIES_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")

SUFFIXES = (".png", ".svg", ".pdf")
_LACKING: Dict[str, None] = {}  # characters that no font has, in the order in which they were met; each is said once


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
def canvas(salt: str, size: Tuple[float, float]) -> Iterator[Any]:
    """A figure to draw on and to :func:`save`; its settings hold within the block.

    The text in an SVG stays text, and the same picture with the same ``salt``, of the identifiers in it, gives the same
    file. ``size`` is in inches.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": salt, "font.family": families(), **_SETTINGS}
    with rc_context(settings):
        figure = Figure(figsize=size)
        FigureCanvasAgg(figure)
        yield figure


def save(figure: Any, path: Path) -> None:
    """Writes a figure; the file appears when it is complete. The picture is cropped to its content.

    Raises ``OptionError`` if it cannot be written.
    """
    suffix = path.suffix.lower()
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(suffix)
    # at most 4e7 points, which fit into memory, and no side above 6e4
    resolution = min(150.0, (4e7 / np.prod(figure.get_size_inches())) ** 0.5, 6e4 / max(figure.get_size_inches()))
    options = {"format": suffix[1:], "dpi": resolution, "metadata": metadata}
    with whole_file(path, f"{path}: cannot write the picture") as partial, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure.savefig(partial, **options, bbox_inches="tight", pad_inches=0.12)
    before = len(_LACKING)
    for one in told:
        glyph = re.match(r"Glyph (\d+) .*missing from", str(one.message))
        if glyph is None:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        else:
            _LACKING.setdefault(chr(int(glyph[1])))
    lacking = list(_LACKING)[before:]
    if lacking:
        shown = "".join(lacking[:9]) + "..." * (len(lacking) > 9)
        print(
            f"{path}: no font has {shown}; install one, such as Noto Sans CJK (Debian: fonts-noto-cjk), or name yours "
            "in font.sans-serif of matplotlibrc",
            file=sys.stderr,
        )
