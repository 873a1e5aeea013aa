"""Which kernel computes a matrix product.

The type of a product is :func:`~fairseq_attn_plugin.ops.precision.product_type`. In bfloat16 both operands are cast,
sums are accumulated in float32, and the result is rounded to bfloat16. In float32 on a processor oneDNN computes what
torch would give to MKL, where this build of torch has oneDNN: on processors that MKL was not written for it is twice as
fast. The results differ by rounding. It has no products of zero rows.
"""

from __future__ import annotations

import os
from typing import Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .precision import product_type

__all__ = ["Prepared", "outer"]

# oneDNN compiles a kernel for each new shape, in about 0.3 ms, and keeps 1,024 of them. With ragged batches nearly all
# shapes are new, and the kernels of LSTM layers hold work space. It reads the variable when it compiles the first one.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")

# A smaller matrix is not worth oneDNN's preparations.
_SMALLEST = 1 << 12


def _has_onednn() -> bool:
    ops = torch.ops.mkldnn
    return hasattr(ops, "_linear_pointwise") and hasattr(ops, "_reorder_linear_weight")


def _by_onednn(matrix: Tensor) -> bool:
    """Whether oneDNN computes the float32 products of a matrix."""
    suits = matrix.device.type == "cpu" and matrix.dtype == torch.float32
    return suits and torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled and _has_onednn()


def _onednn(x: Tensor, matrix: Tensor, base: Optional[Tensor] = None) -> Tensor:
    """``x @ matrix^T + base`` of float32 matrices; ``matrix`` may be packed, ``base`` is ``[R, O]`` or ``[O]``."""
    product = torch.ops.mkldnn._linear_pointwise
    result: Tensor
    if base is None or base.dim() == 1:
        result = product(x, matrix, base, "none", [], "")
    else:
        result = product.binary(x, base.contiguous(), matrix, None, "add")
    return result


class Prepared:
    """A matrix that is the right operand of several products: cast once, and packed once for oneDNN.

    Not differentiable: for the forward and backward passes of autograd functions.

    Args:
        matrix: ``[O, I]``
        dtype: type of the products (default: :func:`~fairseq_attn_plugin.ops.precision.product_type` of the matrix)
        once: whether the matrix is used once, so that packing it would not pay
    """

    def __init__(self, matrix: Tensor, dtype: Optional[torch.dtype] = None, once: bool = False):
        self.dtype = product_type(matrix) if dtype is None else dtype
        self.matrix = matrix.detach().to(self.dtype)
        self._once = once
        self._by_onednn = _by_onednn(self.matrix) and matrix.numel() >= _SMALLEST
        self._packed: Optional[Tensor] = None
        self._packed_transpose: Optional[Tensor] = None

    def linear(self, x: Tensor, base: Optional[Tensor] = None) -> Tensor:
        """``x @ matrix^T + base``, of type ``dtype``.

        Args:
            x: ``[R, I]``, cast if need be
            base: ``[R, O]`` or ``[O]``, cast if need be
        """
        x, base = x.to(self.dtype), None if base is None else base.to(self.dtype)
        if self._by_onednn and len(x):
            if self._packed is None:
                self._packed = self._pack(self.matrix)
            return _onednn(x, self._packed, base)
        if base is None or base.dim() == 1:
            return F.linear(x, self.matrix, base)
        return torch.addmm(base, x, self.matrix.t())

    def matmul(self, x: Tensor) -> Tensor:
        """``x @ matrix``: ``[R, O]``, cast if need be, to ``[R, I]`` of type ``dtype``."""
        x = x.to(self.dtype)
        if not (self._by_onednn and len(x)):
            return x @ self.matrix
        if self._packed_transpose is None:
            self._packed_transpose = self._pack(self.matrix.t())
        return _onednn(x, self._packed_transpose)

    def _pack(self, matrix: Tensor) -> Tensor:
        if self._once:
            return matrix
        packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous())
        return packed


def outer(left: Tensor, right: Tensor, dtype: Optional[torch.dtype] = None) -> Tensor:
    """``left^T @ right``: ``[R, O]`` and ``[R, I]``, cast if need be, to ``[O, I]`` of type ``dtype``.

    Args:
        left, right: matrices
        dtype: type of the product (default: :func:`~fairseq_attn_plugin.ops.precision.product_type` of ``left``)
    """
    dtype = product_type(left) if dtype is None else dtype
    left, right = left.to(dtype), right.to(dtype)
    if _by_onednn(left) and len(left) and left.size(1) * right.size(1) >= _SMALLEST:
        # Transposed rows with gaps between them would get oneDNN's slowest kernel, a thousand times slower.
        return _onednn(left.contiguous().t(), right.contiguous().t())
    return left.t() @ right
