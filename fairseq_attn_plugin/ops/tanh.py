"""tanh through the logistic function: tanh(x) = 2 sigmoid(2x) - 1.

On a processor, torch's sigmoid is several times faster than its tanh (about four times in float32), and tanh is most of
the element-wise work of a recurrent decoder. The absolute error is one rounding near 1. On a GPU the functions use
torch's own tanh, and in half precision too, where this error would matter near zero.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .exporting import exporting

__all__ = ["by_sigmoid", "tanh", "tanh_"]


def by_sigmoid(x: Tensor) -> bool:
    """Whether tanh of tensors like ``x`` is computed through the logistic function."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64) and not exporting()


class _Tanh(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(grad, y)


def tanh(x: Tensor) -> Tensor:
    """tanh(x), element by element; differentiable."""
    if not by_sigmoid(x):
        return torch.tanh(x)
    return _Tanh.apply(x) if torch.is_grad_enabled() else torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)


def tanh_(x: Tensor) -> Tensor:
    """tanh(x) in place; for code without autograd. ``x`` may be a view."""
    return x.mul_(2).sigmoid_().mul_(2).sub_(1) if by_sigmoid(x) else x.tanh_()
