"""The hypotheses that a search has seen: written down step by step, read at the end.

Every row of every step is a node. A node knows its parent, the row of the step before, and the word that led to it. No
step copies what the steps before have written. A finished hypothesis is a node and a slot of its sentence; when the
search is over, all of them are followed back to the first step together.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

__all__ = ["Finished", "Trace"]


class Trace:
    """The nodes of a search over B sentences.

    Args:
        sentences: B
        device: where the search runs
    """

    def __init__(self, sentences: int, device: torch.device):
        self.parents: List[Tensor] = []
        self.words: List[Tensor] = []
        self.scores: List[Tensor] = []
        self.weights: List[Tensor] = []
        self.sizes, self.device = [sentences], device

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

    def paths(self, steps: Tensor, rows: Tensor) -> Tensor:
        """The nodes of H hypotheses from the first step to their last one.

        Args:
            steps: ``[H]``, the last step of each
            rows: ``[H]``, its row at that step

        Returns:
            ``[H, T]``; beyond the last step any node
        """
        sizes = torch.tensor(self.sizes, device=self.device)
        starts = sizes.cumsum(0) - sizes
        longest = int(steps.max()) + 1
        node, back = starts[steps] + rows, []
        if longest > 1:
            first = torch.zeros(self.sizes[0], dtype=torch.long, device=self.device)
            parents = torch.cat([first, *self.parents]) + starts.roll(1).repeat_interleave(sizes)
        for step in range(longest):
            back.append(node)
            if step + 1 < longest:
                node = parents[node]
        order = (steps.unsqueeze(1) - torch.arange(longest, device=self.device)).clamp(min=0)
        return torch.stack(back, dim=1).gather(1, order)

    def after(self, paths: Tensor, values: List[Tensor], last: Tensor) -> Tensor:
        """What :meth:`extend` wrote after each node of ``paths`` ``[H, T]``, then ``last`` ``[H]``, never written."""
        if not values:
            return last.unsqueeze(1)
        first = values[0].new_zeros(self.sizes[0])
        return torch.cat([torch.cat([first, *values])[paths[:, 1:]], last.unsqueeze(1)], dim=1)


class Finished:
    """The finished hypotheses, at most ``beam`` for each of B sentences, in the order in which they were found."""

    def __init__(self, sentences: int, beam: int, device: torch.device):
        self.beam = beam
        self.count = torch.zeros(sentences, dtype=torch.long, device=device)
        # one column more takes those that come too late
        self.steps = torch.zeros(sentences, beam + 1, dtype=torch.long, device=device)
        self.rows = torch.zeros(sentences, beam + 1, dtype=torch.long, device=device)
        self.scores = torch.zeros(sentences, beam + 1, device=device)
        self.ranks = torch.full((sentences, beam + 1), -torch.inf, device=device)

    def add(self, found: Tensor, sentences: Tensor, step: int, rows: Tensor, scores: Tensor, ranks: Tensor) -> Tensor:
        """Adds candidates that end with this step, the first ones first, until a sentence has ``beam`` of them.

        Args:
            found: ``[S, beam]``, which candidates end
            sentences: ``[S]``, the sentences that are still searched
            step: from 0
            rows: ``[S, beam]``, the rows that they end
            scores: ``[S, beam]``, log p(Y | X)
            ranks: ``[S, beam]``, by which they are sorted in the end

        Returns:
            ``[S]``, True on sentences that are finished
        """
        slots = self.count[sentences].unsqueeze(1) + found.cumsum(1)
        slots = (slots - 1).masked_fill(~found, self.beam).clamp(max=self.beam)
        places = sentences.unsqueeze(1), slots
        self.steps[places] = step
        self.rows[places] = rows
        self.scores[places] = scores
        self.ranks[places] = ranks
        self.count[sentences] = (self.count[sentences] + found.sum(1)).clamp(max=self.beam)
        return self.count[sentences] >= self.beam

    def read(self, trace: Trace, eos: int) -> List[List[Dict[str, Any]]]:
        """For each sentence its hypotheses as fairseq returns them, the best first."""
        ranks = self.ranks[:, : self.beam]
        filled = torch.arange(self.beam, device=ranks.device) < self.count.unsqueeze(1)
        order = ranks.masked_fill(~filled, -torch.inf).sort(dim=1, descending=True, stable=True).indices

        def listed(values: Tensor) -> Tensor:
            return values.gather(1, order)[filled]

        steps, counts = listed(self.steps), self.count.tolist()
        if not len(steps):
            return [[] for _ in counts]
        paths, lengths = trace.paths(steps, listed(self.rows)), (steps + 1).tolist()
        positions = torch.arange(paths.size(1), device=steps.device)
        last, within = positions == steps.unsqueeze(1), positions <= steps.unsqueeze(1)
        scores = listed(self.scores)
        words = trace.after(paths, trace.words, torch.full_like(steps, eos)).masked_fill(last, eos)
        sums = trace.after(paths, trace.scores, scores)
        sums = torch.where(last, scores.unsqueeze(1), sums)
        gains = torch.cat([sums[:, :1], sums[:, 1:] - sums[:, :-1]], dim=1)
        if trace.weights:
            weights = [part.t() for part in torch.cat(trace.weights)[paths[within]].split(lengths)]
        else:
            weights = [torch.empty(0)] * len(lengths)
        found = iter(
            {
                "tokens": tokens,
                "score": score,
                "attention": attention,
                "alignment": torch.empty(0),
                "positional_scores": positional,
            }
            for tokens, score, attention, positional in zip(
                words[within].split(lengths), listed(self.ranks).unbind(), weights, gains[within].split(lengths)
            )
        )
        return [[next(found) for _ in range(count)] for count in counts]
