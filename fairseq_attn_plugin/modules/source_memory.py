"""How the rows of a decoder belong to source sentences, in training and in beam search.

A decoder works on R rows. In training a row is a sentence. In beam search each of the B sentences has R / B
neighbouring rows, its hypotheses. What depends on the source alone exists once per sentence, never once per hypothesis:

* ``rows`` ``[R]`` names the sentence of each row,
* the hypotheses of a sentence attend as further queries of that sentence (:class:`SentenceAttention`),
* when a search drops or moves sentences, :func:`follow` says which sentences remain, and only then tensors move.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..attention import Attention, AttentionOutput, index_rows, map_tensors
from ..ops.likelihoods.separable import Part

Intervention = Callable[[Tensor, AttentionOutput], AttentionOutput]


class SourceMemory(NamedTuple):
    """What a decoder computes once for B source sentences and keeps between the steps of a beam search."""

    rows: Tensor  # [R], the sentence of each row of the decoder
    attention: Any  # memory of the attention mechanism, or None
    projected: Optional[Tensor] = None  # [B, N, D], W_h h_j of a latent alignment model
    exponentials: Optional[Part] = None  # of the positions' part of separable logits

    def select(self, rows: Tensor, sentences: Tensor) -> SourceMemory:
        """The memory of some ``sentences`` ``[B']``, to which the new ``rows`` ``[R']`` belong."""
        return SourceMemory(rows, *(index_rows(part, sentences) for part in self[1:]))


def follow(rows: Tensor, new_order: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
    """Follows the sentences through one reordering of the rows.

    Args:
        rows: ``[R]``, the sentence of each row, ascending from 0 to B - 1
        new_order: ``[R']``, for each new row the old row that it continues

    Returns:
        the sentence of each new row ``[R']``, and the old sentences ``[B']`` in their new order, or None where every
        sentence keeps its place
    """
    followed = rows.index_select(0, new_order)
    if followed.shape == rows.shape and torch.equal(followed, rows):
        return rows, None
    sentences, counts = torch.unique_consecutive(followed, return_counts=True)
    if not bool((counts == counts[0]).all()):
        sentences = followed  # sentences with different numbers of rows: every row gets a sentence of its own
    numbers = torch.arange(len(sentences), device=rows.device)
    new_rows = numbers.repeat_interleave(len(followed) // len(sentences))
    unmoved = len(sentences) == int(rows[-1]) + 1 and torch.equal(sentences, numbers)
    return new_rows, None if unmoved else sentences


def reweighed(found: AttentionOutput, weights: Tensor, encodings: Tensor) -> AttentionOutput:
    """What the attention would have returned with other weights ``[R, T, N]``; ``encodings`` ``[R, N, Dh]``."""
    scores = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
    return found._replace(context=torch.bmm(weights, encodings), weights=weights, scores=scores)


class SentenceAttention:
    """Attention from the rows of a decoder to the memory of B sentences, which is read once for all rows of a sentence.

    Args:
        memory: what the mechanism's ``precompute`` returned for B sentences
        intervention: changes what the decoder gets in a step, from the queries ``[R, T, Ds]`` and what the mechanism
            returned for them; None: nothing changes
    """

    def __init__(self, attention: Attention, memory: Any, sentences: int, intervention: Optional[Intervention] = None):
        self.attention, self.memory, self.sentences = attention, memory, sentences
        self.intervention = intervention

    def __call__(self, query: Tensor, state: Any, positions: Tensor, words: Optional[Tensor] = None) -> AttentionOutput:
        """Attends from T steps of R rows, with the rows of a sentence next to each other.

        Args:
            query: ``[R, T, Ds]``
            state: of the mechanism, tensors ``[R, 1, ...]``, or None
            positions: ``[R, T]``, the decoder step of each query, from 0
            words: ``[R, T]``, the decoder's inputs, for a mechanism that reads words

        Returns:
            context ``[R, T, Dh]``, weights and scores ``[R, T, N]``, state ``[R, 1, ...]``
        """
        rows, steps, _ = query.shape

        def by_sentence(x: Tensor) -> Tensor:
            return x.reshape(self.sentences, rows // self.sentences * x.size(1), *x.shape[2:])

        def by_row(x: Tensor) -> Tensor:
            return x.reshape(rows, steps, *x.shape[2:])

        inputs = {"inputs": by_sentence(words)} if words is not None and self.attention.needs_words else {}
        out = self.attention.step(
            by_sentence(query), self.memory, map_tensors(by_sentence, state), by_sentence(positions), **inputs
        )
        new_state = map_tensors(lambda x: x.reshape(rows, 1, *x.shape[2:]), out.state)
        found = AttentionOutput(by_row(out.context), by_row(out.weights), by_row(out.scores), new_state)
        return found if self.intervention is None else self.intervention(query, found)
