"""The sums of :mod:`fairseq_attn_plugin.ops.pair_pooling` by their formulas, for graphs of another program.

All pairs of a batch exist at once, B * N^2 * D numbers.
"""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .chebyshev import cosine_matrix

__all__ = ["plain_pooled_basis", "plain_pooled_tanh"]


def plain_pooled_tanh(keys: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
    """g_k = sum_{j != k} tanh(k_j + k_k) over the real positions, ``[B, N, D]``; zero on padding."""
    counted = _counted(keys, pad_mask)
    return (torch.tanh(keys.unsqueeze(2) + keys.unsqueeze(1)) * counted).sum(2)


def plain_pooled_basis(keys: Tensor, count: int, pad_mask: Optional[Tensor] = None) -> Tensor:
    """G_mk = sum_{j != k} l_m(tanh(k_j + k_k)), ``[B, N, count, D]``; zero on padding."""
    counted = _counted(keys, pad_mask)
    x = torch.tanh(keys.unsqueeze(2) + keys.unsqueeze(1))
    previous, current, sums = torch.ones_like(x), x, []
    for _ in range(count):
        sums.append((previous * counted).sum(2))
        previous, current = current, 2 * x * current - previous
    return torch.matmul(cosine_matrix(count).to(x), torch.stack(sums, dim=2))


def _counted(keys: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """1 for the pairs (k, j) of different words, else 0: ``[B, N, N, 1]``, or ``[1, N, N, 1]`` without padding."""
    numbers = torch.arange(keys.size(1), device=keys.device)
    counted = (numbers.unsqueeze(1) != numbers)[None]
    if pad_mask is not None:
        counted = counted & ~pad_mask.unsqueeze(1) & ~pad_mask.unsqueeze(2)
    return counted.unsqueeze(-1).to(keys.dtype)
