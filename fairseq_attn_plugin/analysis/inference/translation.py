"""What a translator returns: translations, the partial ones of a search that goes on, and their words as typed."""

from __future__ import annotations

import re
from typing import List, NamedTuple

from fairseq_attn_plugin.analysis.records.record import Record

__all__ = ["MOST_CHARACTERS", "Partial", "Translation", "as_typed", "one_line"]


MOST_CHARACTERS = 5000  # of a text: tokenisers are slow on texts that are too long for any model
_ESCAPES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#124": "|", "#91": "[", "#93": "]"}  # of Moses
_ESCAPED = re.compile(f"&({'|'.join(_ESCAPES)});")


class Translation(NamedTuple):
    """One hypothesis of the beam."""

    text: str  # words, detokenised if there is a tokeniser
    score: float  # of the beam search: mean natural log probability, with penalties
    record: Record  # tokens, attention, log probabilities
    unknown: List[int]  # positions of the source tokens that the vocabulary lacks
    source_words: List[str]  # of the record, without the escapes of Moses: < instead of &lt;
    target_words: List[str]
    given: int = 0  # target tokens that the prefix gave


class Partial(NamedTuple):
    """The hypothesis that leads while the search goes on."""

    record: Record  # its attention has no row for the end
    unknown: List[int]  # as in Translation
    source_words: List[str]
    target_words: List[str]


def one_line(text: str) -> str:
    """A text with blanks for line ends and other control characters."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())


def as_typed(words: List[str], escaped: bool) -> List[str]:
    """Words without the escapes of Moses, such as ``&lt;`` for ``<``, if they are ``escaped``."""
    return [_ESCAPED.sub(lambda found: _ESCAPES[found[1]], word) for word in words] if escaped else words
