"""The hypotheses that a search has seen: written down step by step, read at the end.

Every row of every step is a node. A node knows its parent, the row of the step before, and the word that led to it. No
step copies what the steps before have written. A finished hypothesis is a node, a score and a sentence. When the search
is over, all of them are followed back to the first step together, in numpy, whose small operations cost less.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Ending", "Finished", "Trace"]

Array = NDArray[Any]


class Trace:
    """The nodes of a search over B sentences.

    Args:
        sentences: B
    """

    def __init__(self, sentences: int):
        self.parents: List[Tensor] = []
        self.words: List[Tensor] = []
        self.scores: List[Tensor] = []
        self.weights: List[Tensor] = []
        self.sizes = [sentences]

    def attend(self, weights: Optional[Tensor]) -> None:
        """The attention ``[R, N]`` of the rows of the present step."""
        if weights is not None:
            self.weights.append(weights.float())

    def extend(self, parents: Tensor, words: Tensor, scores: Tensor) -> None:
        """The rows ``[R']`` of the next step: rows of the present step, the words after them, and sums of log p."""
        self.parents.append(parents)
        self.words.append(words)
        self.scores.append(scores)
        self.sizes.append(len(parents))

    def paths(self, steps: Array, rows: Array) -> Array:
        """The nodes of H hypotheses from the first step to their last one.

        Args:
            steps: ``[H]``, the last step of each
            rows: ``[H]``, its row at that step

        Returns:
            ``[H, T]``; beyond the last step any node
        """
        sizes = np.array(self.sizes)
        starts = sizes.cumsum() - sizes
        longest = int(steps.max()) + 1
        parents = _joined(self.sizes[0], self.parents, rows.dtype) + np.roll(starts, 1).repeat(sizes)
        back = np.empty((len(steps), longest), dtype=np.int64)
        node = starts[steps] + rows
        for step in range(longest):
            back[:, step] = node
            node = parents[node]
        order = steps[:, None] - np.arange(longest)
        return np.take_along_axis(back, order.clip(min=0), axis=1)

    def after(self, paths: Array, values: List[Tensor], last: Array) -> Array:
        """What :meth:`extend` wrote after each node of ``paths`` ``[H, T]``, then ``last`` ``[H]``, never written."""
        return np.concatenate([_joined(self.sizes[0], values, last.dtype)[paths[:, 1:]], last[:, None]], axis=1)


class Ending(NamedTuple):
    """The candidates of one step that may end, ``[S, beam]`` each, for S sentences."""

    found: Tensor  # which of them end
    sentences: Tensor  # [S]
    rows: Tensor  # that they end
    scores: Tensor  # log p(Y | X)
    step: int


class Finished:
    """The finished hypotheses, at most ``beam`` for each of B sentences: the first ones, in the order of candidates.

    Args:
        sentences: B
        beam: how many
        device: where the search runs
    """

    def __init__(self, sentences: int, beam: int, device: torch.device):
        self.beam, self.device = beam, device
        self.count = torch.zeros(sentences, dtype=torch.long, device=device)
        self.endings: List[Ending] = []

    def add(self, ending: Ending) -> Tensor:
        """Adds candidates that end; returns ``[S]``, True on the sentences that have all hypotheses now."""
        self.endings.append(ending)
        if len(ending.sentences) == len(self.count):  # those that left do not come back
            self.count += ending.found.sum(1)
            return self.count >= self.beam
        self.count[ending.sentences] += ending.found.sum(1)
        return self.count[ending.sentences] >= self.beam

    def read(
        self, trace: Trace, eos: int, divisors: Sequence[float], lengths: Optional[Tensor] = None
    ) -> List[List[Dict[str, Any]]]:
        """For each sentence its hypotheses as fairseq returns them, the best first.

        Args:
            trace: of the search
            eos: the word that ends them
            divisors: for each number of words, from 1, that by which log p(Y | X) is divided
            lengths: ``[B]``, hypotheses with more words before their ends are the worst
        """
        if not self.endings:
            return [[] for _ in self.count]
        found = np.flatnonzero(_flat(ending.found for ending in self.endings))
        rows = _flat(ending.rows for ending in self.endings)[found]
        scores = _flat(ending.scores for ending in self.endings)[found]
        sizes = [ending.found.numel() for ending in self.endings]
        steps = np.array([ending.step for ending in self.endings]).repeat(sizes)[found]
        sentences = _flat(ending.sentences for ending in self.endings).repeat(self.beam)[found]
        # by sentences, in the order in which they were found; then without those that came too late
        order = sentences.argsort(kind="stable")
        counts = np.bincount(sentences, minlength=len(self.count))
        place = np.arange(len(order)) - (counts.cumsum() - counts)[sentences[order]]
        order = order[place < self.beam]
        ranks = scores / np.array(divisors, dtype=scores.dtype)[steps]
        if lengths is not None:
            ranks[lengths.cpu().numpy()[sentences] < steps] = -np.inf
        order = order[(-ranks[order]).argsort(kind="stable")]
        order = order[sentences[order].argsort(kind="stable")]
        hypotheses = self._traced(trace, steps[order], rows[order], scores[order], ranks[order], eos)
        return [[next(hypotheses) for _ in range(count)] for count in counts.clip(max=self.beam).tolist()]

    def _traced(
        self, trace: Trace, steps: Array, rows: Array, scores: Array, ranks: Array, eos: int
    ) -> Iterator[Dict[str, Any]]:
        def split(values: Array) -> Sequence[Tensor]:
            return torch.from_numpy(values[within]).to(self.device).split(lengths)

        paths, lengths = trace.paths(steps, rows), (steps + 1).tolist()
        positions = np.arange(paths.shape[1])
        last, within = positions == steps[:, None], positions <= steps[:, None]
        words = np.where(last, eos, trace.after(paths, trace.words, steps))
        sums = np.where(last, scores[:, None], trace.after(paths, trace.scores, scores))
        gains = np.diff(sums, axis=1, prepend=sums.dtype.type(0))
        nothing = torch.empty(0)
        weights: List[Tensor] = [nothing] * len(lengths)
        if trace.weights:
            nodes = torch.from_numpy(paths[within]).to(self.device)
            weights = [part.t() for part in torch.cat(trace.weights).index_select(0, nodes).split(lengths)]
        ranked = torch.from_numpy(ranks).to(self.device).unbind()
        for tokens, score, attention, positional in zip(split(words), ranked, weights, split(gains), strict=True):
            yield {
                "tokens": tokens,
                "score": score,
                "attention": attention,
                "alignment": nothing,
                "positional_scores": positional,
            }


def _flat(parts: Iterable[Tensor]) -> Array:
    return np.concatenate([part.cpu().numpy().ravel() for part in parts])


def _joined(sentences: int, parts: List[Tensor], dtype: Any) -> Array:
    """The values of all nodes; those of the first step are zero."""
    return np.concatenate([np.zeros(sentences, dtype=dtype), *(part.cpu().numpy() for part in parts)])
