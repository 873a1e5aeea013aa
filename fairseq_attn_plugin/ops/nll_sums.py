"""Sums of log-likelihoods over blocks of words and alignments, and their gradients.

A block of :mod:`fairseq_attn_plugin.ops.alignment_blocks` holds everything that its share of a loss depends on. The
gradients of a block are computed together with its logits, and the logits are then freed. This takes three products
with the vocabulary matrix, as many as backpropagation through all logits, and the memory of one block.
"""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from .alignment_blocks import Alignments, Block, block_inputs, block_masks
from .precision import float16_scale
from .tanh import tanh_

__all__ = ["NLLSums", "SumKind"]


class SumKind(NamedTuple):
    """Which sum over the words and their alignments is formed, from ``weights`` ``[B, T, K]``."""

    mixture: bool  # -log sum_j exp(weights_j) p(y | j), instead of -sum_j weights_j log p(y | j)
    smoothing: float  # label smoothing epsilon
    mixtures: Optional[Tensor]  # [C, B, T, K], whose predictions are compared with the target


class _Words(NamedTuple):
    """The words of a block under its alignments."""

    exponentials: Tensor  # [b, t, k, V], exp(logits - max)
    norm: Tensor  # [b, t, k], their sum
    log_likelihood: Tensor  # [b, t, k], log p(y | j)
    score: Tensor  # [b, t, k], the same with label smoothing


class NLLSums:
    """Sums over blocks: call :meth:`add` with each block once.

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
        d_memory, d_query, d_weight, d_bias, d_weights: gradients of the total, in float32 or better
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
        self.product_type, self.with_gradients = product_type, gradients
        self.full = torch.float64 if query.dtype == torch.float64 else torch.float32
        # Label smoothing: log p(y) becomes gold * log p(y) + uniform * sum_v log p(v)
        self.uniform = kind.smoothing / (alignments.weight.size(0) - 1) if kind.smoothing else 0.0
        self.gold = 1.0 - kind.smoothing - self.uniform
        self.vocabulary = alignments.weight.to(product_type)
        self.bias = None if alignments.bias is None else alignments.bias.to(product_type)
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
        self.d_weight, self.d_bias = zeros(alignments.weight), zeros(alignments.bias)

    def add(self, block: Block) -> None:
        """Adds the words of a block to all sums."""
        memory, query, keep = block_inputs(self.alignments, block)
        hidden = tanh_(query.to(self.full, copy=True) if memory is None else torch.add(memory, query).to(self.full))
        features = (hidden if keep is None else hidden * keep).to(self.product_type)
        flat = features.view(-1, features.size(-1))
        target = self.alignments.target[block.sentences, block.steps]
        gold_index = target[:, :, None, None].expand(*features.shape[:3], 1)
        words = self._normalize(self._logits(flat).view(*features.shape[:3], -1), gold_index)
        real, present = block_masks(self.alignments, block)
        self.log_likelihood[block.where] = words.log_likelihood * present
        self.score[block.where] = words.score * present
        share = self._add_words(block, words.score, real, present)
        if self.kind.mixtures is not None:
            self._add_predictions(block, words, self.kind.mixtures[(slice(None), *block.where)], target, real)
        if self.with_gradients:
            d_logits = self._logit_gradients(words, share, gold_index)
            d_features = self._add_projection_gradients(d_logits.view(-1, d_logits.size(-1)), flat)
            self._add_state_gradients(block, d_features.view_as(hidden), hidden, keep)

    def _logits(self, flat: Tensor) -> Tensor:
        if self.bias is None:
            return (flat @ self.vocabulary.t()).to(self.full)
        return torch.addmm(self.bias, flat, self.vocabulary.t()).to(self.full)

    def _normalize(self, logits: Tensor, gold_index: Tensor) -> _Words:
        """Likelihoods of the words ``gold_index``; overwrites the logits."""
        gold = logits.gather(-1, gold_index).squeeze(-1)
        of_all = logits.sum(-1) if self.uniform else None
        peak = logits.amax(-1, keepdim=True)
        exponentials = logits.sub_(peak).exp_()
        norm = exponentials.sum(-1)
        log_norm = norm.log().add_(peak.squeeze(-1))
        score = log_likelihood = gold - log_norm
        if of_all is not None:
            score = self.gold * log_likelihood + self.uniform * (of_all - self.vocabulary.size(0) * log_norm)
        return _Words(exponentials, norm, log_likelihood, score)

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

    def _add_predictions(self, block: Block, words: _Words, mixtures: Tensor, target: Tensor, real: Tensor) -> None:
        """Whether the target is the most probable word of sum_j m_j p(. | j), for every mixture m ``[C, b, t, k]``."""
        assert self.correct is not None
        scale = (mixtures.to(self.full) / words.norm).permute(1, 2, 0, 3).flatten(0, 1)  # [b t, C, k]
        best = torch.bmm(scale, words.exponentials.flatten(0, 1)).argmax(-1).view(*target.shape, -1)
        hit = best.eq(target.unsqueeze(-1)) & real
        self.correct[:, block.sentences, block.steps] = hit.permute(2, 0, 1)

    def _logit_gradients(self, words: _Words, share: Tensor, gold_index: Tensor) -> Tensor:
        """share (softmax - gold * onehot - uniform), the derivative of -share * score; overwrites the exponentials."""
        d_logits = words.exponentials.mul_((share / words.norm).unsqueeze(-1))
        if self.uniform:
            d_logits.sub_((self.uniform * share).unsqueeze(-1))
        gold_share = self.gold if self.uniform else 1.0
        return d_logits.scatter_add_(-1, gold_index, (-gold_share * share).unsqueeze(-1))

    def _add_projection_gradients(self, d_logits: Tensor, flat: Tensor) -> Tensor:
        """Adds to the gradients of W_v and b_v; returns that of the features ``[b t k, D]``."""
        assert self.d_weight is not None
        scale = float16_scale(len(flat)) if self.product_type == torch.float16 else 1.0
        cast = (d_logits if scale == 1.0 else d_logits * scale).to(self.product_type)
        if self.product_type == self.full:
            self.d_weight.addmm_(cast.t(), flat)
        else:
            self.d_weight.add_(cast.t() @ flat, alpha=1 / scale)
        if self.d_bias is not None:
            self.d_bias += d_logits.sum(0)
        d_features = (cast @ self.vocabulary).to(self.full)
        return d_features if scale == 1.0 else d_features.div_(scale)

    def _add_state_gradients(self, block: Block, d_features: Tensor, hidden: Tensor, keep: Optional[Tensor]) -> None:
        """Adds to the gradients of query and memory."""
        assert self.d_query is not None
        d_sum = torch.ops.aten.tanh_backward(d_features if keep is None else d_features * keep, hidden)
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
        return self.d_memory, self.d_query, self.d_weight, self.d_bias, self.d_weights
