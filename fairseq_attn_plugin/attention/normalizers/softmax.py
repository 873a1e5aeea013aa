"""softmax: a_j = exp(x_j) / sum_k exp(x_k)."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ...ops.devices import exporting
from .normalizer import Normalizer, in_full, log_softmax, over_words, register_normalizer

__all__ = ["Softmax"]


@register_normalizer("softmax")
class Softmax(Normalizer):
    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        if pad_mask is None or exporting():
            return over_words(scores, pad_mask, torch.softmax)
        return _MaskedSoftmax.apply(scores, pad_mask)

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """From the scores, which stays exact when a weight underflows."""
        return log_softmax(scores, pad_mask)


class _MaskedSoftmax(Function):
    """:func:`over_words` of softmax in one autograd node. The gradient a_j (g_j - sum_k a_k g_k) is zero on padding,
    where a is, so that the backward pass does not mask anything."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, pad_mask: Tensor) -> Tensor:
        weights = over_words(in_full(scores), pad_mask, torch.softmax)
        ctx.save_for_backward(weights)
        ctx.dtype = scores.dtype
        return weights.to(scores.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        return torch._softmax_backward_data(grad.to(weights.dtype), weights, -1, weights.dtype).to(ctx.dtype), None
