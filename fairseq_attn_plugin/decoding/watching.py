"""Follows the leading hypothesis of a sentence while a search goes on.

``generator.watch = Watch(tell)`` makes :class:`~fairseq_attn_plugin.decoding.generator.Generator` call ``tell`` after
steps that do not end the search. An exception that ``tell`` raises ends the search.
"""

from __future__ import annotations

import math
import time
from typing import Any, Callable, List, NamedTuple, Optional

from torch import Tensor

from .hypotheses import Trace

__all__ = ["Leader", "Watch"]


class Leader(NamedTuple):
    """The hypothesis with the greatest sum of log p of those that have not ended."""

    words: List[int]
    scores: List[float]  # log p of each word
    weights: List[Optional[Tensor]]  # of the attention [N], for each word


class Watch:
    """Reads the leader of one sentence off a :class:`~fairseq_attn_plugin.decoding.hypotheses.Trace`.

    A row's path is a chain (path of its parent, word, sum of log p, weights): a step costs the same however many words
    there are before it.

    Args:
        tell: receives the leader after each of the first steps, and after a step that is ``seconds`` or more later than
            the last one that was told of
        seconds: 0 for all steps
        clock: time in seconds
        first: how many first steps
    """

    def __init__(
        self,
        tell: Callable[[Leader], None],
        seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
        first: int = 1,
    ):
        self.tell, self.seconds, self.clock, self.first = tell, seconds, clock, first
        self.paths: List[Any] = [None]
        self._told = -math.inf
        self._withheld: Any = None  # path of the newest step, if it has not been told of

    def __call__(self, trace: Trace) -> None:
        """Reads the rows that the trace was last extended by; they are ordered, the best first."""
        attention = trace.weights[-1] if trace.weights else None
        parents, words, sums = (part[-1].tolist() for part in (trace.parents, trace.words, trace.scores))
        self.paths = [
            (self.paths[parent], word, total, None if attention is None else attention[parent])
            for parent, word, total in zip(parents, words, sums)
        ]
        if math.isfinite(sums[0]):
            self._withheld = self.paths[0]
            if len(trace.words) <= self.first or self.clock() - self._told >= self.seconds:
                self.end()

    def end(self) -> None:
        """Tells of the newest step, unless it has been told of."""
        path, self._withheld = self._withheld, None
        if path is not None:
            self._told = self.clock()
            self.tell(self._leader(path))

    @staticmethod
    def _leader(path: Any) -> Leader:
        chain = []
        while path is not None:
            chain.append(path)
            path = path[0]
        chain.reverse()
        sums = [0.0, *(total for _, _, total, _ in chain)]
        scores = [after - before for before, after in zip(sums, sums[1:])]
        return Leader([word for _, word, _, _ in chain], scores, [weights for *_, weights in chain])
