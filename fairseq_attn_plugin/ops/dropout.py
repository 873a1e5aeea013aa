"""Dropout whose masks are drawn quickly on a processor.

torch draws one uniform number for every element, one after the other, which takes several times as long as a pass over
the elements. Here 64 random bits decide four elements, 16 bits each: an element is dropped with probability
round(2^16 p) / 2^16, and the others are divided by the probability of being kept, so that the mean is exact.
"""

from typing import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

_LEVELS = 1 << 16


def dropout_mask(like: Tensor, shape: Sequence[int], p: float) -> Tensor:
    """Numbers to multiply with, of the device and type of ``like``: 0 with probability ``p``, otherwise 1 / (1 - p)."""
    mask = like.new_empty(shape)
    dropped = round(p * _LEVELS)
    if like.device.type != "cpu" or not 0 < dropped < _LEVELS:
        return F.dropout(mask.fill_(1), p)
    bits = torch.empty((mask.numel() + 3) // 4, dtype=torch.int64).random_(-(1 << 63), None)
    levels = bits.view(torch.int16)[: mask.numel()].view(mask.shape)
    return torch.ge(levels, dropped - _LEVELS // 2, out=mask).mul_(_LEVELS / (_LEVELS - dropped))


def dropout(x: Tensor, p: float, training: bool = True) -> Tensor:
    """``x`` times a :func:`dropout_mask` of its shape; ``x`` itself outside training."""
    if x.device.type != "cpu":  # in one pass, whose mask is kept in one byte
        return F.dropout(x, p, training)
    return x * dropout_mask(x, x.shape, p) if training and p > 0 else x
