"""Sums over pairs of positions, by whichever way is cheaper: all pairs, or series whose cost is linear in N.

For vectors x_1..x_N of one sentence let L_jk = tanh(x_j + x_k), element by element (equation 10 of
Charalampous and Chatzis). Attention density matrices need

    pooled_tanh:    g_k    = sum_{j != k} L_jk                     (mqt)
    pooled_basis:   G_{mk} = sum_{j != k} l_m(L_jk),  m = 1..M     (aqt)

over the real positions j, where l_m is the Lagrange basis of M Chebyshev nodes. :mod:`.all_pairs` forms the N^2 pairs.
:mod:`.pair_series` needs Q frequencies for each position; Q grows with the largest |x| (about 9 for encodings and mqt,
15 for encodings and aqt, in float32), so that it serves encodings, which are bounded, and keys of moderate size. In
captured training steps of a GPU :mod:`.fused_pairs` forms the pairs within one kernel. All are as exact as their
floating-point type.
"""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from .all_pairs import sum_basis, sum_tanh
from .chebyshev import cosine_matrix
from .devices import on_gpu
from .exporting import exporting
from .fourier_extension import Series, pair_series
from .fused_pairs import fused_sums, fuses, sums_of_pairs, words_in
from .pair_series import pooled_series
from .precision import without_autocast

__all__ = ["pooled_basis", "pooled_tanh"]

_TOLERANCE = {torch.float32: 1e-7, torch.float64: 1e-12}


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
    series = _cheaper_series(x, pad_mask, 0)
    if series is None:
        return sum_tanh(x, pad_mask, chunk_size)
    return pooled_series(x, series, pad_mask, chunk_size).squeeze(2)


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
    series = _cheaper_series(x, pad_mask, count)
    if series is None:
        return sum_basis(x, count, pad_mask, chunk_size)
    return pooled_series(x, series, pad_mask, chunk_size)


def _by_one_expression(x: Tensor, degree: int, pad_mask: Optional[Tensor]) -> Optional[Tensor]:
    """The sums of T_1..T_degree over all pairs at once, for a graph of another program and for a compiled kernel; None
    otherwise."""
    if exporting():
        return sums_of_pairs(x, words_in(x, pad_mask), degree)
    return fused_sums(x, degree, pad_mask) if fuses(x) else None


def _cheaper_series(x: Tensor, pad_mask: Optional[Tensor], count: int) -> Optional[Series]:
    """The series for pairs of ``x``, or None where all pairs cost less. ``count`` 0 stands for tanh itself."""
    if on_gpu(x):  # the largest |x| decides
        return None
    # Measured on one processor core, forward and backward, in nanoseconds for each number of x.
    pairs = (x.size(1) / 2 + 4) * (1.4 * count or 1.8)
    frequency = 6 + count / 4
    if x.numel() == 0 or 5 * frequency >= pairs:
        return None
    with torch.no_grad():
        real = x if pad_mask is None else x.masked_fill(pad_mask.unsqueeze(-1), 0.0)
        bound = max(map(float, torch.aminmax(real.abs())))
    # A few bounds only, so that the series are found once: the next power of 2^(1/8), a little apart from 1.
    if not (8 + count / 3) * bound * frequency < pairs:  # about as many will be needed
        return None
    bound = 2 ** (math.ceil(8 * math.log2(max(bound, 0.5)) - 1e-3) / 8)
    series = pair_series(count, bound, _TOLERANCE.get(x.dtype, 1e-7))
    terms = series.coefficients.size(1) // 2
    return series if series.error <= series.tolerance and terms * frequency < pairs else None
