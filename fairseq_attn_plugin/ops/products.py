"""Which kernel computes a matrix product.

The type of a product is :func:`~fairseq_attn_plugin.ops.precision.product_type`. In bfloat16 both operands are cast,
sums are accumulated in float32, and the result is rounded to bfloat16. In float32 on a processor oneDNN computes what
torch would give to MKL, where this build of torch has oneDNN: on processors that MKL was not written for it is twice as
fast. The results differ by rounding.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .precision import autocast_enabled, product_type

__all__ = ["Prepared", "linear", "outer"]

# A product of fewer multiplications costs less than oneDNN's preparations.
_SMALLEST = 1 << 20


def _has_onednn() -> bool:
    ops = torch.ops.mkldnn
    return hasattr(ops, "_linear_pointwise") and hasattr(ops, "_reorder_linear_weight")


def _by_onednn(matrix: Tensor) -> bool:
    """Whether oneDNN computes the float32 products of a matrix."""
    suits = matrix.device.type == "cpu" and matrix.dtype == torch.float32
    return suits and torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled and _has_onednn()


def _onednn(x: Tensor, matrix: Tensor) -> Tensor:
    """``x @ matrix^T`` of float32 matrices; ``matrix`` may be packed."""
    product: Tensor = torch.ops.mkldnn._linear_pointwise(x, matrix, None, "none", [], "")
    return product


class Prepared:
    """A matrix that is the right operand of several products: cast once, and packed once for oneDNN.

    Not differentiable: for the forward and backward passes of autograd functions.

    Args:
        matrix: ``[O, I]``
        dtype: type of the products (default: :func:`~fairseq_attn_plugin.ops.precision.product_type` of the matrix)
        rows: about how many rows a left operand has; 0 where the matrix is used once
    """

    def __init__(self, matrix: Tensor, dtype: Optional[torch.dtype] = None, rows: int = 0):
        self.dtype = product_type(matrix) if dtype is None else dtype
        self.matrix = matrix.detach().to(self.dtype)
        self._rows = rows
        self._by_onednn = _by_onednn(self.matrix) and (rows or 64) * matrix.numel() >= _SMALLEST
        self._packed: Optional[Tensor] = None
        self._packed_transpose: Optional[Tensor] = None

    def linear(self, x: Tensor) -> Tensor:
        """``x @ matrix^T``: ``[R, I]``, cast if need be, to ``[R, O]`` of type ``dtype``."""
        x = x.to(self.dtype)
        if not self._by_onednn:
            return F.linear(x, self.matrix)
        if self._packed is None:
            self._packed = self._pack(self.matrix)
        return _onednn(x, self._packed)

    def matmul(self, x: Tensor) -> Tensor:
        """``x @ matrix``: ``[R, O]``, cast if need be, to ``[R, I]`` of type ``dtype``."""
        x = x.to(self.dtype)
        if not self._by_onednn:
            return F.linear(x, self.matrix.t())
        if self._packed_transpose is None:
            self._packed_transpose = self._pack(self.matrix.t())
        return _onednn(x, self._packed_transpose)

    def _pack(self, matrix: Tensor) -> Tensor:
        if not self._rows:
            return matrix
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous(), self._rows)
        return packed


def outer(left: Tensor, right: Tensor, dtype: Optional[torch.dtype] = None) -> Tensor:
    """``left^T @ right``: ``[R, O]`` and ``[R, I]``, cast if need be, to ``[O, I]`` of type ``dtype``.

    Args:
        left, right: matrices
        dtype: type of the product (default: :func:`~fairseq_attn_plugin.ops.precision.product_type` of ``left``)
    """
    dtype = product_type(left) if dtype is None else dtype
    left, right = left.to(dtype), right.to(dtype)
    if _by_onednn(left) and left.numel() * right.size(1) >= _SMALLEST:
        return _onednn(left.t(), right.t())
    return left.t() @ right


class _Linear(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Optional[Tensor], dtype: torch.dtype) -> Tensor:
        prepared = Prepared(weight, dtype)
        rows = x.reshape(-1, x.size(-1)).to(dtype)
        ctx.save_for_backward(rows, prepared.matrix)
        ctx.dtype = x.dtype
        product = prepared.linear(rows).to(x.dtype)
        if bias is not None:
            product.add_(bias)
        return product.view(*x.shape[:-1], -1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor], Optional[Tensor], None]:
        rows, matrix = ctx.saved_tensors
        of_rows = grad.reshape(-1, grad.size(-1))
        cast = of_rows.to(matrix.dtype)
        d_x = d_weight = d_bias = None
        if ctx.needs_input_grad[0]:
            d_x = Prepared(matrix, matrix.dtype).matmul(cast).to(ctx.dtype).view(*grad.shape[:-1], -1)
        if ctx.needs_input_grad[1]:
            d_weight = outer(cast, rows, matrix.dtype).to(ctx.dtype)
        if ctx.needs_input_grad[2]:
            d_bias = of_rows.sum(0)
        return d_x, d_weight, d_bias, None


def linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``x @ weight^T + bias``, differentiable, its products in :func:`~.precision.product_type`, its result as ``x``.

    Args:
        x: ``[..., I]``
        weight: ``[O, I]``
        bias: ``[O]``
    """
    if autocast_enabled(x) or x.dtype != torch.float32 or weight.dtype != torch.float32:
        return F.linear(x, weight, bias)
    dtype = product_type(x)
    if dtype == torch.float32 and not _by_onednn(x):
        return F.linear(x, weight, bias)
    return _Linear.apply(x, weight, bias, dtype)
