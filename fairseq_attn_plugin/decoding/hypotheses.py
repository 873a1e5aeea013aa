"""The hypotheses that a search has seen: written down step by step, read at the end.

Every row of every step is a node. A node knows its parent, the row of the step before, and the word that led to it. No
step copies what the steps before have written. A finished hypothesis is a node and a slot of its sentence; when the
search is over, all of them are followed back to the first step together.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence

import torch
from torch import Tensor

__all__ = ["Ending", "Finished", "Trace"]


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
        self.beam = beam
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
        found = torch.cat([ending.found.flatten() for ending in self.endings]).nonzero().squeeze(1)

        def listed(parts: Iterable[Tensor]) -> Tensor:
            return torch.cat([part.flatten() for part in parts]).index_select(0, found)

        sentences = listed(ending.sentences.unsqueeze(1).expand(-1, self.beam) for ending in self.endings)
        steps = listed(torch.full_like(ending.rows, ending.step) for ending in self.endings)
        rows = listed(ending.rows for ending in self.endings)
        scores = listed(ending.scores for ending in self.endings)
        # by sentences, in the order in which they were found; then without those that came too late
        order = sentences.argsort(stable=True)
        of_sentences = torch.bincount(sentences, minlength=len(self.count))
        starts = of_sentences.cumsum(0) - of_sentences
        place = torch.arange(len(order), device=order.device) - starts[sentences[order]]
        order = order[place < self.beam]
        ranks = scores / torch.tensor(divisors, device=scores.device)[steps]
        if lengths is not None:
            ranks = ranks.masked_fill(lengths[sentences] < steps, -torch.inf)
        order = order[ranks[order].argsort(descending=True, stable=True)]
        order = order[sentences[order].argsort(stable=True)]
        hypotheses = iter(self._traced(trace, steps[order], rows[order], scores[order], ranks[order], eos))
        counts = of_sentences.clamp(max=self.beam).tolist()
        return [[next(hypotheses) for _ in range(count)] for count in counts]

    @staticmethod
    def _traced(
        trace: Trace, steps: Tensor, rows: Tensor, scores: Tensor, ranks: Tensor, eos: int
    ) -> Iterator[Dict[str, Any]]:
        paths, lengths = trace.paths(steps, rows), (steps + 1).tolist()
        positions = torch.arange(paths.size(1), device=steps.device)
        last, within = positions == steps.unsqueeze(1), positions <= steps.unsqueeze(1)
        words = trace.after(paths, trace.words, torch.full_like(steps, eos)).masked_fill(last, eos)
        sums = torch.where(last, scores.unsqueeze(1), trace.after(paths, trace.scores, scores))
        gains = torch.cat([sums[:, :1], sums[:, 1:] - sums[:, :-1]], dim=1)
        nothing = torch.empty(0)
        if trace.weights:
            weights = [part.t() for part in torch.cat(trace.weights)[paths[within]].split(lengths)]
        else:
            weights = [nothing] * len(lengths)
        parts = words[within].split(lengths), ranks.unbind(), weights, gains[within].split(lengths)
        for tokens, score, attention, positional in zip(*parts, strict=True):
            yield {
                "tokens": tokens,
                "score": score,
                "attention": attention,
                "alignment": nothing,
                "positional_scores": positional,
            }
