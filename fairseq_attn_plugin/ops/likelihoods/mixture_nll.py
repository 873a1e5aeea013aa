"""Losses of words under all their alignments, without holding the logits of all alignments.

The objectives of latent alignment models consist of two sums over steps t and alignments j:

    mixture    -sum_t log sum_j exp(w_tj) p(y_t | j)         :func:`mixture_nll`
    expected   -sum_t sum_j w_tj log p(y_t | j)              :func:`expected_nll`

p(y_t | j) and all shapes: :mod:`.alignment_blocks`. The sums are computed block by block, each
with its gradients (:mod:`.nll_sums`). The result must therefore be a scalar: the backward pass
only scales the gradients of the forward pass.
"""

from typing import Any, NamedTuple, Optional, Tuple, Type

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..precision import product_type, without_autocast
from .alignment_blocks import Alignments
from .nll_sums import NLLSums, SumKind
from .separable import SeparableSums, UnsafeSums, spread


class NLL(NamedTuple):
    """A sum over all words, and its terms."""

    total: Tensor  # scalar, differentiable
    log_likelihood: Tensor  # [B, T, K], log p(y_t | j), no gradient, zero on padding
    score: Tensor  # [B, T, K], the same with label smoothing: the terms of the total
    correct: Optional[Tensor]  # [C, B, T], whether y_t is the most probable word of each of C mixtures


def mixture_nll(
    alignments: Alignments, log_weights: Tensor, smoothing: float = 0.0, mixtures: Optional[Tensor] = None
) -> NLL:
    """-sum_t log sum_j exp(log_weights_tj) p(y_t | j).

    Args:
        alignments: the words and their alignments
        log_weights: ``[B, T, K]``, finite; very negative on padding. They do not have to be normalised.
        smoothing: label smoothing epsilon, applied to every log p(y | j): with e = epsilon / (V - 1) it becomes
            (1 - epsilon - e) log p(y | j) + e sum_v log p(v | j)
        mixtures: ``[C, B, T, K]`` non-negative weights; ``correct`` says for each of the C mixtures of p(. | j)
            whether its most probable word is the target

    Gradients (first derivatives) go to ``log_weights``, ``memory``, ``query``, ``weight`` and ``bias``.
    """
    return _nll(alignments, log_weights, SumKind(True, smoothing, mixtures))


def expected_nll(
    alignments: Alignments, weights: Tensor, smoothing: float = 0.0, mixtures: Optional[Tensor] = None
) -> NLL:
    """-sum_t sum_j weights_tj log p(y_t | j); arguments and gradients as in :func:`mixture_nll`.

    The gradient of ``weights_tj`` is -log p(y_t | j). Padding adds nothing.
    """
    return _nll(alignments, weights, SumKind(False, smoothing, mixtures))


def log_likelihoods(alignments: Alignments, mixtures: Optional[Tensor] = None) -> NLL:
    """log p(y_t | j) of all alignments, without gradients and without their cost; ``total`` is zero."""
    with torch.no_grad():
        weights = alignments.query.new_zeros(*alignments.target.shape, alignments.size)
        return _nll(alignments, weights, SumKind(False, 0.0, mixtures))


def _nll(alignments: Alignments, weights: Tensor, kind: SumKind) -> NLL:
    if alignments.sums_parts:
        try:
            return _of_parts(alignments, weights, kind)
        except UnsafeSums:
            pass
    return _apply(NLLSums, alignments, weights, kind)


def _apply(sums: Type[NLLSums], alignments: Alignments, weights: Tensor, kind: SumKind) -> NLL:
    differentiable = (alignments.memory, alignments.query, alignments.weight, alignments.bias, weights)
    # Inside a Function parameters look as if they needed gradients even under no_grad.
    return NLL(*_BlockwiseNLL.apply(sums, alignments, kind, torch.is_grad_enabled(), *differentiable))


def _of_parts(alignments: Alignments, weights: Tensor, kind: SumKind) -> NLL:
    """By the parts of separable alignments; a sum over chosen positions as one over all positions."""
    index = alignments.chosen
    if index is None:
        return _apply(SeparableSums, alignments, weights, kind)
    assert alignments.memory is not None
    size = alignments.memory.size(1)
    weights = spread(weights, index, size, logs=kind.mixture)
    if kind.mixtures is not None:
        kind = kind._replace(mixtures=spread(kind.mixtures, index, size))
    out = _apply(SeparableSums, alignments._replace(chosen=None), weights, kind)
    return out._replace(log_likelihood=out.log_likelihood.gather(-1, index), score=out.score.gather(-1, index))


class _BlockwiseNLL(Function):
    """The tensors that get gradients are arguments of their own, so that autograd sees them."""

    @staticmethod
    def forward(
        ctx: Any,
        kind_of_sums: Type[NLLSums],
        alignments: Alignments,
        kind: SumKind,
        grad_enabled: bool,
        *differentiable: Optional[Tensor],
    ) -> Tuple[Tensor, Tensor, Tensor, Optional[Tensor]]:
        memory, query, weight, bias, weights = differentiable
        assert query is not None and weight is not None and weights is not None
        alignments = alignments._replace(memory=memory, query=query, weight=weight, bias=bias)
        wanted = grad_enabled and any(ctx.needs_input_grad[4:8])
        products = product_type(query)  # autocast's, which is off inside
        with without_autocast(query):
            sums = kind_of_sums(alignments, weights, kind, products, wanted)
            sums.add_all()
        ctx.types = [None if t is None else t.dtype for t in differentiable]
        # In full precision until they are scaled: the range of half precision is for gradients of a scaled loss.
        ctx.save_for_backward(*sums.gradients())
        # In one call: a second one would replace the first.
        constants = (sums.log_likelihood, sums.score, sums.correct)
        ctx.mark_non_differentiable(*(tensor for tensor in constants if tensor is not None))
        return sums.total, *constants

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *unused: Any) -> Tuple[Optional[Tensor], ...]:
        scaled = (
            None if g is None or not needed else (g * grad).to(dtype)
            for g, dtype, needed in zip(ctx.saved_tensors, ctx.types, ctx.needs_input_grad[4:])
        )
        return None, None, None, None, *scaled
