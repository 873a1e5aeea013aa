"""The attention of a sentence, over its subwords and over its words.

An attention matrix is ``[T, N]``: one row for each target position, one column for each source position.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from fairseq_attn_plugin.text.reading import as_typed, unspaced
from fairseq_attn_plugin.text.subwords import spell, word_count, words_of
from fairseq_attn_plugin.text.unknown_words import UNKNOWN

FORMAT = "fairseq_attn_plugin attention 1"
SUFFIX = ".jsonl"
LEVELS = ("words", "subwords")
DIGITS = 5  # decimals of a weight in a file: more than a picture or an argmax can tell apart


@dataclass(frozen=True)
class Header:
    """The properties that all sentences of a file share. Files of the same extraction have equal headers."""

    name: str  # of the system, for legends and tables
    architecture: str
    checkpoint: str  # file names; colons separate those of an ensemble
    source_lang: str
    target_lang: str
    split: str  # of the data, or the name of the text file
    target: str  # "reference", or "beam 5"
    subwords: str  # one of SUBWORDS
    sentences: int  # in the corpus
    weights: Tuple[str, ...] = ("attention",)  # names of the matrices; latent models add "posterior" and "bayes"
    options: Dict[str, Any] = field(default_factory=dict)  # everything else that changes the result

    @property
    def unspaced(self) -> bool:
        """:func:`~fairseq_attn_plugin.text.reading.unspaced` of the two languages."""
        return unspaced(self.subwords, self.source_lang, self.target_lang)

    def same_run(self, other: Header) -> bool:
        """Whether both headers describe one extraction.

        The path of the checkpoint does not count: ``options`` holds the version of its content.
        """
        return replace(self, checkpoint="") == replace(other, checkpoint="")


@dataclass(frozen=True)
class Record:
    """One sentence and the attention of a model.

    ``source`` and ``target`` are subwords without the end of the sentence, of lengths N and T. Each matrix in
    ``weights`` is ``[T + 1, N + 1]``: a row for each target subword, then the end; a column for each source subword,
    then the end. ``scores`` are the T + 1 natural log probabilities of the target subwords and the end; the list is
    empty if they are unknown.
    """

    id: int  # number of the sentence in the corpus, from 0
    source: List[str]
    target: List[str]
    weights: Dict[str, np.ndarray]
    scores: List[float]
    subwords: str = "bpe"
    reference: Optional[str] = None  # words; set if the target is a hypothesis and the corpus has a translation

    @property
    def attention(self) -> np.ndarray:
        """The matrix ``attention``: over subwords, with both sentence ends."""
        return self.weights["attention"]

    @property
    def score(self) -> float:
        """Mean natural log probability of the target subwords and the end; NaN if ``scores`` are unknown."""
        return sum(self.scores) / len(self.scores) if self.scores else math.nan

    @property
    def source_words(self) -> List[str]:
        """The words that ``source`` spells."""
        return spell(self.source, self.subwords)

    @property
    def target_words(self) -> List[str]:
        """The words that ``target`` spells."""
        return spell(self.target, self.subwords)

    def units(self, level: str = "words") -> Tuple[List[str], List[str]]:
        """Source and target as a list of units; ``level`` is one of ``LEVELS``."""
        if level == "words":
            return self.source_words, self.target_words
        return self.source, self.target

    def matrix(self, name: Optional[str] = None) -> np.ndarray:
        """A matrix over subwords, with both sentence ends (default: ``attention``, or the first one without it)."""
        return self.weights[name or ("attention" if "attention" in self.weights else next(iter(self.weights)))]

    def word_attention(self, name: Optional[str] = None, end: bool = False) -> np.ndarray:
        """Weights over words: summed over the subwords of a source word, averaged over those of a target word.

        Args:
            name: of the matrix, as for :meth:`matrix`
            end: keep the last row and the last column, those of the sentence ends

        Returns:
            ``[target words, source words]``, or one row and one column more with ``end``. With ``end`` a row sums to
            what the model's rows sum to. Without it the weight on the end of the source is missing.
        """
        sides = [words_of(tokens, self.subwords) for tokens in (self.source, self.target)]
        if end:
            sides = [words + [word_count(words)] for words in sides]
        weights = np.asarray(self.matrix(name), dtype=float)[: len(sides[1]), : len(sides[0])]
        # [words, subwords], whether the subword is a piece of the word
        source, target = (np.arange(word_count(words))[:, None] == np.array(words) for words in sides)
        return target / target.sum(axis=1, keepdims=True) @ weights @ np.ascontiguousarray(source.T)

    def unit_attention(self, level: str = "words", name: Optional[str] = None, end: bool = False) -> np.ndarray:
        """Weights over the units of :meth:`units`, in float64; see :meth:`word_attention`."""
        if level == "words":
            return self.word_attention(name, end)
        matrix = np.asarray(self.matrix(name), dtype=float)
        return matrix if end else matrix[:-1, :-1]


def shown_units(record: Record, level: str = "words", escaped: bool = True) -> Tuple[List[str], List[str]]:
    """Source and target units of a record; an unknown word of the target is ``<unk> (Haus)``.

    ``Haus`` is the source unit with the greatest weight. It is left out if it is unknown as well, or if no unit has any
    weight. ``level`` is one of ``LEVELS``; ``escaped`` undoes the escapes of Moses' tokeniser.
    """
    source, target = record.units(level)
    if escaped:
        source, target = list(map(as_typed, source)), list(map(as_typed, target))
    if source and any(UNKNOWN in word for word in target):
        nearest = [source[row.argmax()] if row.any() else UNKNOWN for row in record.unit_attention(level)]
        target = [
            f"{word} ({near})" if UNKNOWN in word and UNKNOWN not in near else word
            for word, near in zip(target, nearest)
        ]
    return source, target
