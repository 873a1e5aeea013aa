"""Which kernel computes a matrix product.

The type of a product is :func:`~fairseq_attn_plugin.ops.precision.product_type`. In bfloat16 both operands are cast,
sums are accumulated in float32, and the result is rounded to bfloat16. In float32 on a processor that MKL was
not written for (:func:`by_intel`) oneDNN computes what torch would give to MKL, where this build of torch has oneDNN:
it is twice as fast there. The results differ by rounding. It has no products of zero rows.

In bfloat16 both are oneDNN's. It compiles a kernel for each new shape, which takes up to 15 ms on processors with AMX.
The rows of tall matrices are therefore filled up with zeros to a multiple of 64 (:func:`tall`), so that shapes return.
"""

import functools
import os
import platform
from pathlib import Path
from typing import Dict, Optional

import torch
import torch.nn.functional as F
from torch import Tensor

from .precision import has_bfloat16

# oneDNN compiles a kernel for each new shape, in about 0.3 ms, and keeps 1,024 of them. With ragged batches nearly all
# shapes are new, and the kernels of LSTM layers hold work space. It reads the variable when it compiles the first one.
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "256")

# A smaller matrix is not worth oneDNN's preparations.
_SMALLEST = 1 << 12
# The number of rows of a tall matrix in bfloat16 is rounded up to a multiple of this.
_ROWS = 64
# oneDNN reads a transposed operand once for each block of columns: beside so many times its columns a copy costs less.
_WIDE = 8


@functools.lru_cache(maxsize=None)
def by_intel() -> bool:
    """Whether the processor is one of those that MKL was written for."""
    listed = Path("/proc/cpuinfo")  # of Linux; other systems name the maker in platform.processor()
    return "GenuineIntel" in (listed.read_text() if listed.is_file() else platform.processor())


def _by_onednn(matrix: Tensor, dtype: torch.dtype = torch.float32) -> bool:
    """Whether products of a matrix are asked of oneDNN, and not of torch, if they are of type ``dtype``."""
    suits = matrix.device.type == "cpu" and matrix.dtype == dtype and not (dtype == torch.float32 and by_intel())
    return suits and torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled


def tall(x: Tensor, dtype: torch.dtype) -> Tensor:
    """``[..., I]`` as a matrix ``[R, I]`` of type ``dtype``, in bfloat16 on a processor with more rows of zeros."""
    rows = x.numel() // x.size(-1)
    more = -rows % _ROWS if rows > 4 * _ROWS and x.device.type == "cpu" and dtype == torch.bfloat16 else 0
    if not more:
        return x.reshape(-1, x.size(-1)).to(dtype)
    matrix = x.new_empty(rows + more, x.size(-1), dtype=dtype)
    matrix[:rows].view(x.shape).copy_(x)
    matrix[rows:].zero_()
    return matrix


def _onednn(x: Tensor, matrix: Tensor, base: Optional[Tensor] = None) -> Tensor:
    """``x @ matrix^T + base`` of float32 matrices; ``matrix`` may be packed, ``base`` is ``[R, O]`` or ``[O]``."""
    product = torch.ops.mkldnn._linear_pointwise
    if base is None or base.dim() == 1:
        return product(x, matrix, base, "none", [], "")
    return product.binary(x, base.contiguous(), matrix, None, "add")


class Prepared:
    """A matrix that is the right operand of several products: cast once, and packed once for oneDNN.

    Not differentiable: for the forward and backward passes of autograd functions.

    Args:
        matrix: ``[O, I]``
        dtype: type of the products
    """

    def __init__(self, matrix: Tensor, dtype: torch.dtype):
        self.dtype, self.matrix = dtype, matrix.detach().to(dtype)
        if matrix.device.type == "cpu":  # oneDNN is a thousand times slower with gaps between the rows of this operand
            self.matrix = self.matrix.contiguous()
        self._by_onednn = _by_onednn(self.matrix) and matrix.numel() >= _SMALLEST
        self._adds_bias = _by_onednn(self.matrix, torch.bfloat16) and has_bfloat16("cpu")
        self._packed: Dict[bool, Tensor] = {}

    def matmul(self, x: Tensor, base: Optional[Tensor] = None) -> Tensor:
        """``x @ matrix + base``: ``[R, O]``, cast if need be, to ``[R, I]`` of type ``dtype``."""
        return self.linear(x, base, transposed=True)

    def linear(self, x: Tensor, base: Optional[Tensor] = None, transposed: bool = False) -> Tensor:
        """``x @ matrix^T + base``, of type ``dtype``.

        Args:
            x: ``[R, I]``, cast if need be
            base: ``[R, O]`` or ``[O]``, cast if need be
            transposed: take the transpose of the matrix
        """
        rows, base = len(x), None if base is None else base.to(self.dtype)
        x = x.to(self.dtype) if base is not None and base.dim() == 2 else tall(x, self.dtype)
        matrix = self.matrix.t() if transposed else self.matrix
        if self._by_onednn and rows:
            if transposed not in self._packed:
                self._packed[transposed] = torch.ops.mkldnn._reorder_linear_weight(matrix.contiguous())
            return _onednn(x, self._packed[transposed], base)
        if base is None:
            return F.linear(x, matrix)[:rows]
        if base.dim() == 2:
            return torch.addmm(base, x, matrix.t())
        if self._adds_bias and rows:  # torch would write the bias into all rows of the result first
            return _onednn(x, matrix, base)[:rows]
        return F.linear(x, matrix, base)[:rows]


def outer(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """``left^T @ right``: ``[R, O]`` and ``[R, I]``, cast if need be, to ``[O, I]`` of type ``dtype``."""
    left, right = tall(left, dtype), tall(right, dtype)
    if _by_onednn(left) and len(left) and left.size(1) * right.size(1) >= _SMALLEST:
        # Transposed rows with gaps between them would get oneDNN's slowest kernel, a thousand times slower.
        return _onednn(left.contiguous().t(), right.contiguous().t())
    if dtype == torch.bfloat16 and left.device.type == "cpu" and right.size(1) >= _WIDE * left.size(1):
        return left.t().contiguous() @ right
    return left.t() @ right
