"""Likelihoods of words given their alignments, without ever holding the logits of all alignments.

A latent alignment z = j picks one source position; with H_j = W_h h_j and S_t = W_s s_t + b

    o_tj = keep_t * tanh(H_j + S_t),     log p(y_t | j) = log softmax(W_v o_tj + b_v)[y_t]

(Deng et al. 2018). ``keep`` is the dropout mask of the step, the same for all its alignments. Two sums over (t, j) are
what objectives are made of:

    mixture    -sum_t log sum_j exp(lw_tj) p(y_t | j)        :func:`mixture_nll`
    expected   -sum_t sum_j w_tj log p(y_t | j)              :func:`expected_nll`

Their logits would be T x N x V numbers. They are computed in blocks of whole rows (all alignments of a step are in
the same block), and since such a block holds everything that its share of the loss depends on, its gradients are
formed at once and its logits dropped: three products with the vocabulary matrix, as many as backpropagation through
all logits needs, and the memory of one block. The price is that the result must be a scalar, whose gradients are only
scaled later.

Shapes: B sentences, N source positions, T steps, K alignments of a step, D units, V words. Masks are True on padding.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, ContextManager, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from .tanh import tanh, tanh_

__all__ = ["Alignments", "NLL", "expected_nll", "log_likelihoods", "mixture_log_probs", "mixture_nll"]

# Logits held at a time: what a processor's cache holds together with the vocabulary matrix; enough to fill a GPU.
BLOCK_BYTES = {"cpu": 8 << 20, "cuda": 512 << 20}


class Alignments(NamedTuple):
    """What the likelihoods of words given alignments are computed from.

    ``memory`` None says that ``query`` already holds the sum of both (one relaxed or mean alignment a step, K = 1).
    ``chosen`` ``[B, T, K]`` picks K positions for every step; None stands for all N.
    """

    memory: Optional[Tensor]  # [B, N, D], H
    query: Tensor  # [B, T, D], S
    weight: Tensor  # [V, D]
    bias: Optional[Tensor]  # [V]
    target: Tensor  # [B, T], the words y; on padding any word's index
    target_mask: Tensor  # [B, T]
    pad_mask: Optional[Tensor] = None  # [B, N]
    keep: Optional[Tensor] = None  # [B, T, D]
    chosen: Optional[Tensor] = None  # [B, T, K]

    @property
    def size(self) -> int:
        """K, the number of alignments of a step."""
        if self.memory is None:
            return 1
        return self.memory.size(1) if self.chosen is None else self.chosen.size(-1)


class NLL(NamedTuple):
    """A sum over all words and what is known of its terms."""

    total: Tensor  # scalar, differentiable
    log_likelihood: Tensor  # [B, T, K], log p(y_t | j), no gradient, zero on padding
    score: Tensor  # [B, T, K], the same with label smoothing: what the total is a sum of
    correct: Optional[Tensor]  # [C, B, T], whether y_t is the most probable word of each of C mixtures


def mixture_nll(
    alignments: Alignments, log_weights: Tensor, smoothing: float = 0.0, mixtures: Optional[Tensor] = None
) -> NLL:
    """-sum_t log sum_j exp(log_weights_tj) p(y_t | j).

    Args:
        alignments: the words and their alignments
        log_weights: ``[B, T, K]``, finite; very negative on padding. They need not be normalised.
        smoothing: label smoothing epsilon, applied to every log p(y | j): with e = epsilon / (V - 1) it becomes
            (1 - epsilon - e) log p(y | j) + e sum_v log p(v | j)
        mixtures: ``[C, B, T, K]`` non-negative weights; ``correct`` tells for each of the C mixtures of p(. | j)
            whether its most probable word is the target

    Gradients (first derivatives) go to ``log_weights``, ``memory``, ``query``, ``weight`` and ``bias``.
    """
    return _nll(alignments, log_weights, True, smoothing, mixtures)


def expected_nll(
    alignments: Alignments, weights: Tensor, smoothing: float = 0.0, mixtures: Optional[Tensor] = None
) -> NLL:
    """-sum_t sum_j weights_tj log p(y_t | j); arguments and gradients as in :func:`mixture_nll`.

    The gradient of ``weights_tj`` is -log p(y_t | j). Padding counts for nothing.
    """
    return _nll(alignments, weights, False, smoothing, mixtures)


def log_likelihoods(alignments: Alignments, mixtures: Optional[Tensor] = None) -> NLL:
    """log p(y_t | j) of all alignments, without gradients (and without their cost); ``total`` is zero."""
    with torch.no_grad():
        weights = alignments.query.new_zeros(*alignments.target.shape, alignments.size)
        return _nll(alignments, weights, False, 0.0, mixtures)


def mixture_log_probs(alignments: Alignments, log_weights: Tensor) -> Tensor:
    """log sum_j exp(log_weights_tj) p(v | j) of all words v: ``[B, T, V]``; ``target`` is not used.

    Differentiable: each block is computed again on the way back, so that here too no T x N x V logits are held.
    """
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (*alignments, log_weights)):
        rows = [
            checkpoint(_block_log_probs, alignments, log_weights, block, use_reentrant=False)
            for block in _blocks(alignments, trim=False)
        ]
    else:
        rows = [_fast_block_log_probs(alignments, log_weights, block) for block in _blocks(alignments, trim=False)]
    return torch.cat(rows).view(*alignments.query.shape[:2], -1)


def _nll(alignments: Alignments, weights: Tensor, mixture: bool, smoothing: float, mixtures: Optional[Tensor]) -> NLL:
    # Inside a Function parameters look as if they needed gradients even under no_grad.
    return NLL(*_PairNLL.apply(*alignments, weights, mixture, smoothing, mixtures, torch.is_grad_enabled()))


class _Block(NamedTuple):
    """Sentences, steps and source positions that are computed together."""

    sentences: slice
    steps: slice
    positions: slice


def _blocks(alignments: Alignments, trim: bool = True) -> Iterator[_Block]:
    """Covers all words with blocks of whole rows; with ``trim`` without what is padding in all of a block's sentences.

    In their order, so that results of blocks can be joined: only a block of one sentence may hold a part of its steps.
    """
    batch, steps, _ = alignments.query.shape
    size, vocabulary = alignments.size, alignments.weight.size(0)
    width = 8 if alignments.query.dtype == torch.float64 else 4
    limit = max(1, BLOCK_BYTES["cpu" if alignments.query.device.type == "cpu" else "cuda"] // (vocabulary * width))
    per_block = max(1, limit // max(1, size * steps))
    starts, ends = [0] * batch, [size] * batch
    lengths = [steps] * batch
    if trim:
        lengths = _extent(alignments.target_mask)[1]
        if alignments.chosen is None and alignments.pad_mask is not None and alignments.memory is not None:
            starts, ends = _extent(alignments.pad_mask)
    for first in range(0, batch, per_block):
        last = min(batch, first + per_block)
        begin, end = min(starts[first:last]), max(max(ends[first:last]), 1)
        longest = max(lengths[first:last])
        at_once = steps if per_block > 1 else max(1, limit // max(1, end - begin))
        for step in range(0, longest, at_once):
            yield _Block(slice(first, last), slice(step, min(longest, step + at_once)), slice(min(begin, end - 1), end))


def _extent(mask: Tensor) -> Tuple[List[int], List[int]]:
    """For each row of a mask ``[B, N]`` the first position that is not masked, and the one after the last."""
    positions = torch.arange(mask.size(1), device=mask.device)
    first = positions.masked_fill(mask, mask.size(1)).amin(1)
    last = (positions + 1).masked_fill(mask, 0).amax(1)
    bounds = torch.stack([first, last]).tolist()  # one transfer
    return bounds[0], bounds[1]


def _inputs(alignments: Alignments, block: _Block) -> Tuple[Optional[Tensor], Tensor, Optional[Tensor]]:
    """Memory ``[b, 1 or t, k, D]``, query ``[b, t, 1, D]`` and keep ``[b, t, 1, D]`` of a block."""
    query = alignments.query[block.sentences, block.steps].unsqueeze(2)
    keep = None if alignments.keep is None else alignments.keep[block.sentences, block.steps].unsqueeze(2)
    if alignments.memory is None:
        return None, query, keep
    if alignments.chosen is None:
        return alignments.memory[block.sentences, block.positions].unsqueeze(1), query, keep
    memory, index = alignments.memory[block.sentences], alignments.chosen[block.sentences, block.steps]
    picked = memory.gather(1, index.flatten(1).unsqueeze(-1).expand(-1, -1, memory.size(-1)))
    return picked.view(*index.shape, -1), query, keep


def _alignment_slice(alignments: Alignments, block: _Block) -> Tuple[slice, slice, slice]:
    """Where the block lies in a tensor ``[B, T, K]``."""
    whole = alignments.chosen is not None or alignments.memory is None
    return block.sentences, block.steps, slice(None) if whole else block.positions


def _autocast_enabled(like: Tensor) -> bool:
    return torch.is_autocast_cpu_enabled() if like.device.type == "cpu" else torch.is_autocast_enabled()


def _compute_type(query: Tensor) -> torch.dtype:
    """The type of the products: autocast's where that is on."""
    if not _autocast_enabled(query) or query.dtype == torch.float64:
        return query.dtype
    return torch.get_autocast_cpu_dtype() if query.device.type == "cpu" else torch.get_autocast_gpu_dtype()


def _without_autocast(like: Tensor) -> ContextManager[Any]:
    return torch.autocast(like.device.type, enabled=False) if _autocast_enabled(like) else nullcontext()


class _PairNLL(Function):
    @staticmethod
    def forward(
        ctx: Any,
        memory: Optional[Tensor],
        query: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        target: Tensor,
        target_mask: Tensor,
        pad_mask: Optional[Tensor],
        keep: Optional[Tensor],
        index: Optional[Tensor],
        weights: Tensor,
        mixture: bool,
        smoothing: float,
        mixtures: Optional[Tensor],
        with_gradients: bool,
    ) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
        alignments = Alignments(memory, query, weight, bias, target, target_mask, pad_mask, keep, index)
        compute = _compute_type(query)
        with _without_autocast(query):
            wanted = with_gradients and any(ctx.needs_input_grad[:4])
            state = _Accumulator(alignments, compute, wanted, smoothing)
            for block in _blocks(alignments):
                state.add(block, weights, mixture, mixtures)
        ctx.types = [None if t is None else t.dtype for t in (memory, query, weight, bias, weights)]
        # In full precision until they have been scaled: half precision's range is for gradients of a scaled loss.
        ctx.save_for_backward(*state.gradients(), state.d_weights)
        # In one call: a second one would take the place of the first.
        constants = (state.log_likelihood, state.score, state.correct)
        ctx.mark_non_differentiable(*(tensor for tensor in constants if tensor is not None))
        return state.total, state.log_likelihood, state.score, state.correct

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *unused: Any) -> Tuple[Optional[Tensor], ...]:
        d_memory, d_query, d_weight, d_bias, d_weights = (
            None if g is None or not needed else (g * grad).to(kind)
            for g, kind, needed in zip(
                ctx.saved_tensors, ctx.types, (*ctx.needs_input_grad[:4], ctx.needs_input_grad[9])
            )
        )
        return d_memory, d_query, d_weight, d_bias, None, None, None, None, None, d_weights, None, None, None, None


class _Accumulator:
    """Sums and gradients over blocks."""

    def __init__(self, alignments: Alignments, compute: torch.dtype, gradients: bool, smoothing: float):
        query = alignments.query
        self.alignments, self.compute, self.with_gradients = alignments, compute, gradients
        self.full = torch.float64 if query.dtype == torch.float64 else torch.float32
        words = alignments.weight.size(0)
        self.uniform = smoothing / (words - 1) if smoothing else 0.0
        self.gold = 1.0 - smoothing - self.uniform
        self.weight = alignments.weight.to(compute)
        self.bias = None if alignments.bias is None else alignments.bias.to(compute)
        shape = (*query.shape[:2], alignments.size)
        self.total = query.new_zeros((), dtype=self.full)
        self.log_likelihood = query.new_zeros(shape, dtype=self.full)
        self.score = torch.zeros_like(self.log_likelihood)
        self.d_weights = torch.zeros_like(self.log_likelihood)
        self.correct: Optional[Tensor] = None

        def zeros(like: Optional[Tensor]) -> Optional[Tensor]:
            return None if like is None or not gradients else torch.zeros_like(like, dtype=self.full)

        self.d_memory, self.d_query = zeros(alignments.memory), zeros(query)
        self.d_weight, self.d_bias = zeros(alignments.weight), zeros(alignments.bias)

    def gradients(self) -> Tuple[Optional[Tensor], ...]:
        return self.d_memory, self.d_query, self.d_weight, self.d_bias

    def add(self, block: _Block, weights: Tensor, mixture: bool, mixtures: Optional[Tensor]) -> None:
        alignments = self.alignments
        where = _alignment_slice(alignments, block)
        memory, query, keep = _inputs(alignments, block)
        hidden = tanh_(query.to(self.full, copy=True) if memory is None else torch.add(memory, query).to(self.full))
        features = (hidden if keep is None else hidden * keep).to(self.compute)
        b, t, k, width = features.shape
        flat = features.view(-1, width)
        logits = (flat @ self.weight.t() if self.bias is None else torch.addmm(self.bias, flat, self.weight.t())).to(
            self.full
        )
        logits = logits.view(b, t, k, -1)
        target = alignments.target[block.sentences, block.steps]
        real = ~alignments.target_mask[block.sentences, block.steps].unsqueeze(-1)  # [b, t, 1]
        present = real  # [b, t, 1 or k]
        if alignments.pad_mask is not None and memory is not None and alignments.chosen is None:
            present = real & ~alignments.pad_mask[block.sentences, block.positions].unsqueeze(1)
        gold_index = target[:, :, None, None].expand(b, t, k, 1)
        gold = logits.gather(-1, gold_index).squeeze(-1)
        of_all = logits.sum(-1) if self.uniform else None
        peak = logits.amax(-1, keepdim=True)
        exponentials = logits.sub_(peak).exp_()
        norm = exponentials.sum(-1)
        log_norm = norm.log().add_(peak.squeeze(-1))
        log_likelihood = gold - log_norm
        self.log_likelihood[where] = log_likelihood * present
        scored = log_likelihood
        if of_all is not None:
            words = self.weight.size(0)
            scored = self.gold * log_likelihood + self.uniform * (of_all - words * log_norm)
        self.score[where] = scored * present

        block_weights = weights[where].to(self.full)
        if mixture:
            joint = block_weights + scored
            log_marginal = joint.logsumexp(-1, keepdim=True)
            share = (joint - log_marginal).exp_() * present
            self.total -= (log_marginal * real).sum()
            self.d_weights[where] = -share
        else:
            share = block_weights * present
            self.total -= (share * scored).sum()
            self.d_weights[where] = -scored * present
        if mixtures is not None:
            self._predict(block, exponentials, norm, mixtures[(slice(None), *where)], target, real)
        if self.with_gradients:
            # d / d logits of -share * scored = share (softmax - gold_share * onehot - uniform_share)
            d_logits = exponentials.mul_((share / norm).unsqueeze(-1))
            if self.uniform:
                d_logits.sub_((self.uniform * share).unsqueeze(-1))
            gold_share = self.gold if self.uniform else 1.0
            d_logits.scatter_add_(-1, gold_index, (-gold_share * share).unsqueeze(-1))
            self._backward(block, d_logits.view(-1, d_logits.size(-1)), flat, hidden, keep)

    def _predict(
        self, block: _Block, exponentials: Tensor, norm: Tensor, mixtures: Tensor, target: Tensor, real: Tensor
    ) -> None:
        """Whether the target is the most probable word of sum_j m_j p(. | j), for every mixture m."""
        if self.correct is None:
            self.correct = self.log_likelihood.new_zeros(
                mixtures.size(0), *self.alignments.query.shape[:2], dtype=torch.bool
            )
        scale = (mixtures.to(self.full) / norm).permute(1, 2, 0, 3).flatten(0, 1)  # [b t, C, k]
        best = torch.bmm(scale, exponentials.flatten(0, 1)).argmax(-1).view(*target.shape, -1)
        hit = best.eq(target.unsqueeze(-1)) & real
        self.correct[:, block.sentences, block.steps] = hit.permute(2, 0, 1)

    def _backward(self, block: _Block, d_logits: Tensor, flat: Tensor, hidden: Tensor, keep: Optional[Tensor]) -> None:
        alignments = self.alignments
        assert self.d_weight is not None and self.d_query is not None
        scale = _scale(self.compute, len(flat))
        cast = (d_logits if scale == 1.0 else d_logits * scale).to(self.compute)
        if self.compute == self.full:
            self.d_weight.addmm_(cast.t(), flat)
        else:
            self.d_weight.add_(cast.t() @ flat, alpha=1 / scale)
        if self.d_bias is not None:
            self.d_bias += d_logits.sum(0)
        d_hidden = (cast @ self.weight).to(self.full).view_as(hidden)
        if scale != 1.0:
            d_hidden /= scale
        if keep is not None:
            d_hidden = d_hidden * keep
        d_sum = torch.ops.aten.tanh_backward(d_hidden, hidden)
        self.d_query[block.sentences, block.steps] += d_sum.sum(2)
        if self.d_memory is None:
            return
        if alignments.chosen is None:
            self.d_memory[block.sentences, block.positions] += d_sum.sum(1)
        else:
            # A product with one-hot rows rather than a scatter: the same order of summation in every run, on a GPU too.
            index = alignments.chosen[block.sentences, block.steps].flatten(1)
            positions = torch.arange(self.d_memory.size(1), device=index.device)
            picks = (positions[None, :, None] == index[:, None, :]).to(d_sum.dtype)
            self.d_memory[block.sentences] += picks @ d_sum.flatten(1, 2)


def _scale(compute: torch.dtype, rows: int) -> float:
    """What the gradients of logits, numbers in [-1, 1] and mostly small, are multiplied by for a product in float16.

    The largest power of two (1024 at most) with which a sum over ``rows`` stays in float16's range.
    """
    return 1.0 if compute != torch.float16 else 2.0 ** max(-4, min(10, int(math.log2(32768 / rows))))


def _block_log_probs(alignments: Alignments, log_weights: Tensor, block: _Block) -> Tensor:
    """``[b t, V]``, by autograd's own operations."""
    memory, query, keep = _inputs(alignments, block)
    hidden = tanh(query if memory is None else memory + query)
    features = hidden if keep is None else hidden * keep
    logits = torch.nn.functional.linear(features, alignments.weight, alignments.bias)
    log_probs = logits.to(log_weights.dtype).log_softmax(-1)
    weights = log_weights[_alignment_slice(alignments, block)].unsqueeze(-1)
    return (log_probs + weights).logsumexp(2).flatten(0, 1)


def _fast_block_log_probs(alignments: Alignments, log_weights: Tensor, block: _Block) -> Tensor:
    """The same without gradients: one softmax, and the sum over alignments as a product."""
    memory, query, keep = _inputs(alignments, block)
    hidden = tanh_(query.clone() if memory is None else memory + query)
    features = hidden if keep is None else hidden * keep
    logits = torch.nn.functional.linear(features, alignments.weight, alignments.bias).to(log_weights.dtype)
    weights = log_weights[_alignment_slice(alignments, block)].flatten(0, 1)
    if weights.size(-1) == 1:
        return (logits.log_softmax(-1).flatten(0, 2)).add_(weights)
    # A word whose probability underflows under every alignment gets the smallest number's logarithm.
    with _without_autocast(logits):
        sums = torch.bmm(weights.exp().unsqueeze(1), logits.softmax(-1).flatten(0, 1)).squeeze(1)
    return sums.clamp_(min=torch.finfo(sums.dtype).tiny).log_()
