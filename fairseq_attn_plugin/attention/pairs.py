"""Pairs of source positions: which of them count, what they are formed of, and whether their tanh is saturated."""

from __future__ import annotations

from typing import Dict, Optional

import torch
from torch import Tensor

__all__ = ["absent_pairs", "centred", "pair_statistics"]


def absent_pairs(x: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """Pairs (j, k) that do not count, ``[B or 1, 1, N, N]``: j = k, and j or k on padding.

    Args:
        x: ``[B, N, D]``, for the number of positions and the device
        pad_mask: ``[B, N]``, True on padding
    """
    absent = torch.eye(x.size(1), dtype=torch.bool, device=x.device)[None, None]
    if pad_mask is not None:
        absent = absent | pad_mask[:, None, :, None] | pad_mask[:, None, None, :]
    return absent


def centred(x: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
    """x_j - mean_i x_i, the mean over the real positions of each sentence, in float32 at least; zero on padding.

    Args:
        x: ``[B, N, D]``
        pad_mask: ``[B, N]``, True on padding
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if pad_mask is None:
        return (wide - wide.mean(1, keepdim=True)).to(x.dtype)
    padding = pad_mask.unsqueeze(-1)
    count = (~padding).sum(1, keepdim=True).clamp(min=1)
    mean = wide.masked_fill(padding, 0.0).sum(1, keepdim=True) / count
    return (wide - mean).masked_fill(padding, 0.0).to(x.dtype)


@torch.no_grad()
def pair_statistics(x: Tensor, pad_mask: Optional[Tensor] = None) -> Dict[str, Tensor]:
    """How far the pairs L_jk = tanh(x_j + x_k) of a batch are from saturation.

    Args:
        x: ``[B, N, D]``, the vectors that form the pairs
        pad_mask: ``[B, N]``, True on padding

    Returns:
        - ``slope``: the mean of 1 - L_jk^2 over dimensions and pairs of neighbouring words, k = j + 1; 1 without pairs
        - ``offset``: the root mean square over dimensions of the mean vector of all words
        - ``size``: the root mean square of x over words and dimensions
    """
    real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if pad_mask is None else ~pad_mask
    words, neighbours = x[real].float(), real[:, 1:] & real[:, :-1]
    pairs = torch.tanh((x[:, 1:] + x[:, :-1])[neighbours].float())
    return {
        "slope": 1 - pairs.square().mean() if len(pairs) else words.new_ones(()),
        "offset": words.mean(0).square().mean().sqrt(),
        "size": words.square().mean().sqrt(),
    }
