"""Fonts for words of any script: matplotlib's fallback list, and text that matplotlib shows unchanged.

matplotlib takes each character from the first font of ``font.family`` that has it (from version 3.6 on).
"""

from __future__ import annotations

from functools import lru_cache
from typing import List

__all__ = ["BASE", "families", "literal"]


BASE = "DejaVu Sans"  # part of matplotlib
# widely installed fonts that together cover most scripts; users can set font.sans-serif in matplotlibrc
_FALLBACKS = (
    "Noto Sans",
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans SC",
    "Noto Sans JP",
    "Noto Sans KR",
    "Noto Sans Arabic",
    "Noto Sans Hebrew",
    "Noto Sans Devanagari",
    "Noto Sans Bengali",
    "Noto Sans Tamil",
    "Noto Sans Thai",
    "Noto Sans Ethiopic",
    "Noto Sans Georgian",
    "Noto Sans Armenian",
    "Noto Sans Khmer",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "IPAexGothic",
    "Unifont",
    "Arial Unicode MS",
    "PingFang SC",
    "Hiragino Sans",
    "Apple SD Gothic Neo",
    "Microsoft YaHei",
    "Yu Gothic",
    "Malgun Gothic",
    "Nirmala UI",
    "Leelawadee UI",
    "Segoe UI",
    "Symbola",
)


def literal(text: str) -> str:
    """Text that matplotlib shows unchanged.

    A ``$`` would begin a formula, and legends omit labels that begin with ``_``.
    """
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def families() -> List[str]:
    """The installed fonts for ``font.family``: matplotlib's own, those of matplotlibrc, and fonts of many scripts."""
    from matplotlib import rcParams

    wanted = dict.fromkeys((BASE, *rcParams["font.sans-serif"], *_FALLBACKS))
    return [name for name in wanted if name in _installed()]


@lru_cache(maxsize=None)
def _installed() -> frozenset[str]:
    from matplotlib.font_manager import fontManager

    return frozenset(font.name for font in fontManager.ttflist)
