"""Sums over pairs of positions, on a processor and on a GPU.

For vectors x_1..x_N of one sentence let L_jk = tanh(x_j + x_k), element by element (equation 10 of
Charalampous and Chatzis). Attention density matrices need

    pooled_tanh:    g_k    = sum_{j != k} L_jk                     (mqt)
    pooled_basis:   G_{mk} = sum_{j != k} l_m(L_jk),  m = 1..M     (aqt)

over the real positions j, where l_m is the Lagrange basis of M Chebyshev nodes. :mod:`.all_pairs` forms the N^2 pairs
in blocks; in captured training steps of a GPU :mod:`.fused_pairs` forms them within one kernel.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from ..devices import exporting
from ..precision import without_autocast
from .all_pairs import cosine_matrix, sum_basis, sum_tanh
from .fused_pairs import fused_sums, fuses, sums_of_pairs, words_in

__all__ = ["pooled_basis", "pooled_tanh"]


def pooled_tanh(x: Tensor, pad_mask: Optional[Tensor] = None, chunk_size: int = 0) -> Tensor:
    """g_k = sum_{j != k} tanh(x_j + x_k) over the real positions of each sentence.

    Args:
        x: ``[B, N, D]``; half precision is summed in float32
        pad_mask: ``[B, N]``, True on padding, which adds nothing and receives zeros
        chunk_size: positions handled at a time; 0 chooses by the size of the cache. Extra memory is at most a few
            buffers of B * chunk_size * N * D numbers.

    Returns:
        ``[B, N, D]``
    """
    sums = _by_one_expression(x, 1, pad_mask)
    if sums is not None:
        return sums.squeeze(2)
    return sum_tanh(x, pad_mask, chunk_size)


def pooled_basis(x: Tensor, count: int, pad_mask: Optional[Tensor] = None, chunk_size: int = 0) -> Tensor:
    """G_mk = sum_{j != k} l_m(tanh(x_j + x_k)), m = 1..count, over the real positions.

    For every function f that is smooth on [-1, 1], sum_{j != k} f(L_jk) is close to sum_m f(x_m) G_mk.

    Returns:
        ``[B, N, count, D]``; arguments as for :func:`pooled_tanh`
    """
    sums = _by_one_expression(x, max(1, count - 1), pad_mask)
    if sums is not None:
        real = words_in(x, pad_mask).to(x.dtype)
        others = (real.sum(1, keepdim=True) - 1) * real  # T_0 = 1
        sums = torch.cat([others[:, :, None, None].expand_as(sums[:, :, :1]), sums], dim=2)[:, :, :count]
        with without_autocast(sums):
            return torch.matmul(cosine_matrix(count, sums.dtype, sums.device), sums)
    return sum_basis(x, count, pad_mask, chunk_size)


def _by_one_expression(x: Tensor, degree: int, pad_mask: Optional[Tensor]) -> Optional[Tensor]:
    """The sums of T_1..T_degree over all pairs at once, for a graph of another program and for a compiled kernel; None
    otherwise."""
    if exporting():
        return sums_of_pairs(x, words_in(x, pad_mask), degree)
    return fused_sums(x, degree, pad_mask) if fuses(x) else None
