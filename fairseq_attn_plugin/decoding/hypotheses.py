"""The hypotheses that a search has seen: written down step by step, read at the end.

Every row of every step is a node. A node knows its parent, a row of the step before, and the word that led to it. No
step copies what the steps before have written. A finished hypothesis is a node and a score. When the search is over,
each is followed back to the first step. That happens on lists: for the few numbers of a path each call of torch or
numpy costs more than the loop. Words and scores of all paths are then read at once.
"""

from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import numpy as np
import torch
from torch import Tensor


class Ending(NamedTuple):
    """A finished hypothesis."""

    step: int  # at which it ended; it has step + 1 words
    row: int  # that it ended
    score: float  # log p(Y | X)


class Hypotheses:
    """The nodes of a search over B sentences, and its finished hypotheses.

    At most ``beam`` for each sentence are kept, the first ones in the order of candidates.
    """

    def __init__(self, sentences: int, beam: int, device: torch.device):
        self.beam, self.device = beam, device
        self.parents: List[Tensor] = []
        self.words: List[Tensor] = []
        self.scores: List[Tensor] = []
        self.weights: List[Tensor] = []
        self.starts = [0, sentences]  # the first node of each step, and of the step that is not reached yet
        self.endings: List[List[Ending]] = [[] for _ in range(sentences)]

    def attend(self, weights: Optional[Tensor]) -> None:
        """The attention ``[R, N]`` of the rows of the present step."""
        if weights is not None:
            self.weights.append(weights.float())

    def extend(self, parents: Tensor, words: Tensor, scores: Tensor) -> None:
        """The rows ``[R']`` of the next step: rows of the present step, the words after them, and sums of log p."""
        self.parents.append(parents)
        self.words.append(words)
        self.scores.append(scores)
        self.starts.append(self.starts[-1] + len(parents))

    def add(self, found: Tensor, sentences: Sequence[int], rows: Tensor, scores: Tensor, step: int) -> List[int]:
        """Adds candidates of one step, those that are True in ``found``.

        Args:
            found: ``[S, beam]``
            sentences: the numbers of S sentences
            rows: ``[S, beam]``, that they end
            scores: ``[S, beam]``, log p(Y | X)
            step: from 0

        Returns:
            the places ``[S']`` of the sentences that do not have all their hypotheses
        """
        found, rows, scores = found.reshape(-1), rows.reshape(-1), scores.reshape(-1)
        places = found.nonzero().squeeze(1)
        chosen = (part.index_select(0, places).tolist() for part in (rows, scores))
        for place, row, score in zip(places.tolist(), *chosen):
            endings = self.endings[sentences[place // self.beam]]
            if len(endings) < self.beam:
                endings.append(Ending(step, row, score))
        return [place for place, sentence in enumerate(sentences) if len(self.endings[sentence]) < self.beam]

    def read(self, eos: int, divisors: Sequence[float]) -> List[List[Dict[str, Any]]]:
        """For each sentence its hypotheses as fairseq returns them, the best first.

        Args:
            eos: the word that ends them
            divisors: for each number of words, from 1, that by which log p(Y | X) is divided
        """
        first = self.starts[1]
        above: List[int] = []  # for each node after the first step, the node that it continues
        if self.parents:
            starts = np.repeat(self.starts[: len(self.parents)], [len(rows) for rows in self.parents])
            above = (torch.cat(self.parents).cpu().numpy() + starts).tolist()

        def rank(ending: Ending) -> float:  # as float32 rounds it: hypotheses may tie
            return float(np.float32(ending.score / divisors[ending.step]))

        ranked = [one for endings in self.endings for one in sorted(endings, key=rank, reverse=True)]
        nodes: List[int] = []
        for step, row, _ in ranked:
            path = [self.starts[step] + row]
            while path[-1] >= first:
                path.append(above[path[-1] - first])
            nodes += reversed(path)
        sizes = [ending.step + 1 for ending in ranked]
        places, nothing = self._tensor(nodes, torch.long), torch.empty(0)
        ends = self._tensor(sizes, torch.long).cumsum(0) - 1
        # What follows a node: the word and the sum of the next one of its path, or the end and the hypothesis's score.
        words = torch.cat([places.new_full((first,), eos), *self.words]).index_select(0, places)
        before = torch.cat([torch.zeros(first, device=self.device), *self.scores]).index_select(0, places)
        tokens, after = words.roll(-1), before.roll(-1)
        after[ends] = self._tensor([ending.score for ending in ranked], torch.float32)
        weights: Sequence[Tensor] = [nothing] * len(sizes)
        if self.weights and sizes:
            weights = torch.cat(self.weights).index_select(0, places).t().split(sizes, dim=1)
        scores = self._tensor(list(map(rank, ranked)), torch.float32).unbind()
        parts = zip(tokens.split(sizes), scores, weights, after.sub_(before).split(sizes), strict=True)
        hypotheses = (
            {"tokens": t, "score": score, "attention": w, "alignment": nothing, "positional_scores": g}
            for t, score, w, g in parts
        )
        return [[next(hypotheses) for _ in endings] for endings in self.endings]

    def _tensor(self, values: Sequence[float], dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype, device=self.device)
