"""Classified documents as rows: sentences with the shades of their words, after Yang et al. 2016, figures 5 and 6.

A row is a sentence. The red at its left is the weight of the sentence. The blue behind a word is sqrt(p_s) p_w, the
weight p_w of the word with the weight p_s of its sentence, so an important word is dark only in an important sentence.
The greatest value of the document has the full colour. In a flat model words are weighted within the document: blue is
p_w, and there is no red.
"""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

__all__ = [
    "SENTENCE_COLOUR",
    "WORD_COLOUR",
    "Row",
    "is_wrong",
    "keys",
    "left_out",
    "left_out_after",
    "shaded",
    "title_of",
]


SENTENCE_COLOUR, WORD_COLOUR = (201, 42, 42), (28, 126, 214)


class Row(NamedTuple):
    """A sentence to draw. Shades are from 0 to 1. In a flat model sentences have neither shade nor weight."""

    shade: Optional[float]
    words: List[str]
    shades: List[float]
    weight: Optional[float]
    weights: List[float]
    skipped: int = 0  # number of sentences left out directly before this one


def shaded(document: Any, most: int = 0) -> List[Row]:
    """The sentences of a ``Classified`` document with their shades: the ``most`` ones of greatest weight (0: all)."""
    shares = document.sentence_weights
    values = [
        [weight * (1.0 if shares is None else math.sqrt(max(shares[k], 0.0))) for weight in weights]
        for k, weights in enumerate(document.word_weights)
    ]
    top = max((value for row in values for value in row), default=0.0) or 1.0
    # in a flat model the weight of a sentence is that of its words
    order = shares if shares is not None else [sum(weights) for weights in document.word_weights]
    kept = sorted(sorted(range(len(values)), key=lambda k: -order[k])[: most or len(values)])
    greatest = max(shares, default=0.0) or 1.0 if shares is not None else 1.0
    rows = []
    for place, k in enumerate(kept):
        shade = None if shares is None else shares[k] / greatest
        before = kept[place - 1] if place else -1
        weight = None if shares is None else shares[k]
        shades = [value / top for value in values[k]]
        rows.append(Row(shade, document.sentences[k], shades, weight, document.word_weights[k], k - before - 1))
    return rows


def left_out_after(document: Any, rows: Sequence[Row]) -> int:
    """The number of sentences left out after the last of ``rows``."""
    return len(document.sentences) - sum(row.skipped + 1 for row in rows)


def left_out(count: int, what: str = "sentence") -> str:
    return f"… {count} {what}{'' if count == 1 else 's'} left out"


def title_of(name: str, gold: Optional[str], label: str, probability: float) -> str:
    known = "" if gold is None else f"label: {gold}, "
    return f"{name}: {known}prediction: {label} ({100 * probability:.1f} %)"


def is_wrong(document: Any) -> bool:
    return document.gold is not None and document.gold != document.label


def keys(documents: Sequence[Any]) -> Tuple[str, str]:
    """The meaning of red (empty if a flat model classified all documents), and of blue."""
    flat = [document.sentence_weights is None for document in documents]
    if all(flat):
        return "", "weight of the word in the document"
    blue = "weight of the word, times the square root of the weight of its sentence"
    return "weight of the sentence", blue + (", if it has one" if any(flat) else "")
