"""Normalisation of raw text: Unicode's composed form, and Moses' rules for punctuation."""

from __future__ import annotations

import unicodedata
from typing import Callable, Optional

from fairseq_attn_plugin.errors import OptionError

__all__ = ["NORMALIZERS", "build_normalizer"]

NORMALIZERS = ("moses",)


def build_normalizer(name: Optional[str], language: str) -> Callable[[str], str]:
    """A function from a line to its normalised form.

    Args:
        name: ``moses``: the composed form of letters, and Moses' punctuation; None: nothing
        language: of the text, for Moses' rules

    Raises:
        OptionError: the name is another
    """
    if name is None:
        return str
    if name != "moses":
        raise OptionError(f"--normalizer {name}: must be one of {', '.join(NORMALIZERS)}")
    from sacremoses import MosesPunctNormalizer

    punctuation = MosesPunctNormalizer(lang=language)
    return lambda line: str(punctuation.normalize(unicodedata.normalize("NFC", line)))
