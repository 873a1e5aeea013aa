"""One sentence with its attention, and what the sentences of a file share."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.records.merging import merge_weights
from fairseq_attn_plugin.text.subwords import spell, words_of

__all__ = ["FORMAT", "Header", "Record"]


FORMAT = "fairseq_attn_plugin attention 1"
SUFFIXES = (".jsonl", ".npz")
DIGITS = 5  # of a weight in a file: what a picture or an argmax can tell apart, and more


@dataclass(frozen=True)
class Header:
    """What the sentences of a file have in common; files with equal headers are of the same run."""

    name: str  # of the system, for legends and tables
    architecture: str
    checkpoint: str  # file names, with colons between those of an ensemble
    source_lang: str
    target_lang: str
    split: str  # of the data, or the name of the text file
    target: str  # "reference", or "beam 5"
    subwords: str  # one of SUBWORDS
    sentences: int  # in the corpus
    weights: Tuple[str, ...] = ("attention",)  # names of the matrices: "prior" and "posterior" of latent models too
    options: Dict[str, Any] = field(default_factory=dict)  # everything else that changes what is extracted

    def same_run(self, other: Header) -> bool:
        """Whether both are of one extraction, wherever the checkpoint was looked for: its version is in ``options``."""
        return replace(self, checkpoint="") == replace(other, checkpoint="")


@dataclass(frozen=True)
class Record:
    """One sentence and what a model attended to.

    ``source`` and ``target`` are subwords without the end of the sentence, of lengths N and T. The matrices in
    ``weights`` are ``[T + 1, N + 1]``: a row for each target subword and the end, a column for each source subword and
    the end, in this order. ``scores`` are the T + 1 natural log probabilities of the target's subwords and its end.
    """

    id: int  # number of the sentence in the corpus, from 0
    source: List[str]
    target: List[str]
    weights: Dict[str, np.ndarray]
    scores: List[float]
    subwords: str = "bpe"
    reference: Optional[str] = None  # words, where the target is a hypothesis and the corpus has a translation

    @property
    def attention(self) -> np.ndarray:
        return self.weights["attention"]

    @property
    def score(self) -> float:
        """Mean natural log probability of the target's subwords, its end included."""
        return sum(self.scores) / len(self.scores) if self.scores else 0.0

    @property
    def source_words(self) -> List[str]:
        return spell(self.source, self.subwords)

    @property
    def target_words(self) -> List[str]:
        return spell(self.target, self.subwords)

    def word_attention(self, name: str = "attention", end: bool = False) -> np.ndarray:
        """Weights over words: sums over the pieces of a source word, means over those of a target word.

        ``[target words, source words]``; with ``end`` a last row and a last column for the ends of the sentences.
        Rows with the end sum to what the model's do; without it the weight that went to the source's end is missing.
        """
        sides = [words_of(tokens, self.subwords) for tokens in (self.source, self.target)]
        if end:
            sides = [words + [words[-1] + 1 if words else 0] for words in sides]
        return merge_weights(self.weights[name], *sides)
