"""Sums of log-likelihoods over blocks of words and alignments, and their gradients.

A block of :mod:`.alignment_blocks` holds everything that its share of a loss depends on: its gradients are computed
together with its logits (:mod:`.vocabulary_loss`), which are then freed.
"""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .alignment_blocks import Alignments, Block, block_inputs, block_masks, blocks_of
from .vocabulary_loss import Exponentials, VocabularyBlocks


class SumKind(NamedTuple):
    """Which sum over the words and their alignments is formed, from ``weights`` ``[B, T, K]``."""

    mixture: bool  # -log sum_j exp(weights_j) p(y | j), instead of -sum_j weights_j log p(y | j)
    smoothing: float  # label smoothing epsilon
    mixtures: Optional[Tensor]  # [C, B, T, K], whose predictions are compared with the target


class NLLSums:
    """Sums over blocks: call :meth:`add_all` once.

    Args:
        alignments: the words and their alignments
        weights: ``[B, T, K]``
        kind: what is summed
        product_type: type of the products with the vocabulary matrix
        gradients: whether to compute the gradients of ``alignments``; those of ``weights`` are always computed

    Attributes:
        total: the sum, a number
        log_likelihood: ``[B, T, K]``, log p(y | j), zero on padding
        score: the same with label smoothing
        correct: ``[C, B, T]``, whether y is the most probable word of each mixture, or None
        d_memory, d_query, d_weights: gradients of the total, in float32 or better
    """

    def __init__(
        self,
        alignments: Alignments,
        weights: Tensor,
        kind: SumKind,
        product_type: torch.dtype,
        gradients: bool,
    ):
        query = alignments.query
        self.alignments, self.weights, self.kind = alignments, weights, kind
        self.with_gradients = gradients
        self.vocabulary = VocabularyBlocks(alignments.weight, alignments.bias, kind.smoothing, product_type, gradients)
        self.full = self.vocabulary.full
        shape = (*query.shape[:2], alignments.size)
        self.total = query.new_zeros((), dtype=self.full)
        self.log_likelihood = query.new_zeros(shape, dtype=self.full)
        self.score = torch.zeros_like(self.log_likelihood)
        self.d_weights = torch.zeros_like(self.log_likelihood)
        self.correct: Optional[Tensor] = None
        if kind.mixtures is not None:
            self.correct = query.new_zeros(len(kind.mixtures), *query.shape[:2], dtype=torch.bool)

        def zeros(like: Optional[Tensor]) -> Optional[Tensor]:
            return None if like is None or not gradients else torch.zeros_like(like, dtype=self.full)

        self.d_memory, self.d_query = zeros(alignments.memory), zeros(query)

    def add_all(self) -> None:
        """Adds all words to all sums."""
        for block in blocks_of(self.alignments):
            self.add(block)

    def add(self, block: Block) -> None:
        """Adds the words of a block to all sums."""
        memory, query, keep = block_inputs(self.alignments, block)
        hidden = query.to(self.full, copy=True) if memory is None else torch.add(memory, query).to(self.full)
        hidden = self.alignments.activated(hidden, in_place=True)
        features = hidden if keep is None else hidden * keep
        rows, flat = features.shape[:3], features.view(-1, features.size(-1))
        target = self.alignments.target[block.sentences, block.steps]
        gold = target.unsqueeze(-1).expand(rows).flatten()
        words = self.vocabulary.exponentials(flat, gold)
        real, present = block_masks(self.alignments, block)
        score = words.score.view(rows)
        self.log_likelihood[block.where] = words.log_likelihood.view(rows) * present
        self.score[block.where] = score * present
        share = self._add_words(block, score, real, present)
        if self.kind.mixtures is not None:
            self._add_predictions(block, words, self.kind.mixtures[(slice(None), *block.where)], target, real)
        if self.with_gradients:
            d_features = self.vocabulary.add_gradients(words, flat, gold, share.flatten())
            self._add_state_gradients(block, d_features.view_as(hidden), hidden, keep)

    def _add_words(self, block: Block, score: Tensor, real: Tensor, present: Tensor) -> Tensor:
        """Adds to the total and to the gradient of the weights.

        Returns:
            the negative derivative of the total by each score, ``[b, t, k]``
        """
        weights = self.weights[block.where].to(self.full)
        if self.kind.mixture:
            joint = weights + score
            log_marginal = joint.logsumexp(-1, keepdim=True)
            share = (joint - log_marginal).exp_() * present
            self.total -= (log_marginal * real).sum()
            self.d_weights[block.where] = -share
        else:
            share = weights * present
            self.total -= (share * score).sum()
            self.d_weights[block.where] = -score * present
        return share

    def _add_predictions(
        self, block: Block, words: Exponentials, mixtures: Tensor, target: Tensor, real: Tensor
    ) -> None:
        """Whether the target is the most probable word of sum_j m_j p(. | j), for every mixture m ``[C, b, t, k]``."""
        assert self.correct is not None
        by_word = mixtures.flatten(1, 2).transpose(0, 1).to(self.full)  # [b t, C, k]
        norm, exponentials = (x.view(len(by_word), -1, x.size(-1)) for x in (words.norm, words.values))
        best = torch.bmm(by_word / norm.transpose(1, 2), exponentials).argmax(-1).view(*target.shape, -1)
        hit = best.eq(target.unsqueeze(-1)) & real
        self.correct[:, block.sentences, block.steps] = hit.permute(2, 0, 1)

    def _add_state_gradients(self, block: Block, d_features: Tensor, hidden: Tensor, keep: Optional[Tensor]) -> None:
        """Adds to the gradients of query and memory."""
        assert self.d_query is not None
        d_sum = d_features if keep is None else d_features * keep
        d_sum = d_sum if self.alignments.split else torch.ops.aten.tanh_backward(d_sum, hidden)
        self.d_query[block.sentences, block.steps] += d_sum.sum(2)
        if self.d_memory is None:
            return
        if self.alignments.chosen is None:
            self.d_memory[block.sentences, block.positions] += d_sum.sum(1)
        else:
            # A product with one-hot rows instead of a scatter: it sums in the same order in every run, on a GPU too.
            index = self.alignments.chosen[block.sentences, block.steps].flatten(1)
            positions = torch.arange(self.d_memory.size(1), device=index.device)
            picks = (positions[None, :, None] == index[:, None, :]).to(d_sum.dtype)
            self.d_memory[block.sentences] += picks @ d_sum.flatten(1, 2)

    def gradients(self) -> Tuple[Optional[Tensor], ...]:
        """The gradients of memory, query, vocabulary matrix, bias and weights."""
        return (self.d_memory, self.d_query, *self.vocabulary.finish(), self.d_weights)
