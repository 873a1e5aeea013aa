"""Each word's number in its sentence."""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

__all__ = ["word_positions"]


def word_positions(encodings: Tensor, pad_mask: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """Each word's number in its sentence from 0, ``[B, N]`` (meaningless on padding), and the lengths ``[B, 1]``, in
    float32 or better: half precision cannot count far."""
    batch, size, _ = encodings.shape
    dtype = torch.promote_types(encodings.dtype, torch.float32)
    if pad_mask is None:
        words = torch.arange(size, dtype=dtype, device=encodings.device).expand(batch, size)
        return words, words.new_full((batch, 1), float(size))
    real = (~pad_mask).to(dtype)
    return (real.cumsum(1) - 1).clamp(min=0), real.sum(1, keepdim=True)
