"""Fonts for words of any script."""

from __future__ import annotations

from functools import lru_cache
from typing import FrozenSet, Iterable, List, Tuple

__all__ = ["BASE", "families", "literal"]


BASE = "DejaVu Sans"  # comes with matplotlib
# placeholders, and symbols for formulas that have other encodings
_NONE_FOR_WORDS = ("Last Resort", "cm", "STIX")


def literal(text: str) -> str:
    """Shown by matplotlib as it is: ``$`` would begin a formula, and a legend leaves out what begins with ``_``."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def families(texts: Iterable[str]) -> Tuple[List[str], str]:
    """Installed fonts that have the characters of ``texts`` between them, and the characters that none has.

    matplotlib takes each character from the first font that has it (from version 3.6 on).
    """
    missing = {character for text in texts for character in text if character.isprintable() and character != " "}
    chosen = [BASE]
    missing -= _characters(_path(BASE))
    while missing:
        best = max(_others(), key=lambda font: len(missing & _characters(font[1])), default=None)
        if best is None or not missing & _characters(best[1]):
            break
        chosen.append(best[0])
        missing -= _characters(best[1])
    return chosen, "".join(sorted(missing))


def _path(name: str) -> str:
    from matplotlib.font_manager import findfont

    return findfont(name)


@lru_cache(maxsize=None)
def _others() -> Tuple[Tuple[str, str], ...]:
    """Names and files of the other upright fonts of normal weight, in alphabetical order."""
    from matplotlib.font_manager import fontManager

    fonts = {
        (font.name, font.fname)
        for font in fontManager.ttflist
        if font.style == "normal" and font.weight in (400, "normal", "regular", "book")
    }
    return tuple(sorted(font for font in fonts if font[0] != BASE and not font[0].startswith(_NONE_FOR_WORDS)))


@lru_cache(maxsize=None)
def _characters(path: str) -> FrozenSet[str]:
    from matplotlib.ft2font import FT2Font

    try:
        return frozenset(map(chr, FT2Font(path).get_charmap()))
    except (OSError, RuntimeError, ValueError):  # a font that FreeType cannot read is none
        return frozenset()
