"""The escapes of Moses' tokeniser, such as ``&apos;``, undone for a reader."""

from __future__ import annotations

import re

__all__ = ["as_typed"]

_ESCAPES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#124": "|", "#91": "[", "#93": "]"}
_ESCAPED = re.compile(f"&({'|'.join(_ESCAPES)});")


def as_typed(text: str) -> str:
    """A text without escapes: ``'`` for ``&apos;``, ``<`` for ``&lt;``."""
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], text) if "&" in text else text
