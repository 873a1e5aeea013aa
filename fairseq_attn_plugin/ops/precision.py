"""The precision of operations that are written by hand, under autocast and without."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import Any, ContextManager

import torch
from torch import Tensor

__all__ = ["autocast_enabled", "float16_scale", "product_type", "without_autocast"]


def autocast_enabled(like: Tensor) -> bool:
    """Whether autocast is on for the device of a tensor."""
    return torch.is_autocast_cpu_enabled() if like.device.type == "cpu" else torch.is_autocast_enabled()


def product_type(like: Tensor) -> torch.dtype:
    """The type in which matrix products of a tensor are computed: autocast's if it is on, except for float64."""
    if not autocast_enabled(like) or like.dtype == torch.float64:
        return like.dtype
    return torch.get_autocast_cpu_dtype() if like.device.type == "cpu" else torch.get_autocast_gpu_dtype()


def without_autocast(like: Tensor) -> ContextManager[Any]:
    """A context in which autocast is off for the device of a tensor."""
    return torch.autocast(like.device.type, enabled=False) if autocast_enabled(like) else nullcontext()


def float16_scale(rows: int) -> float:
    """The factor of logit gradients in a float16 product: numbers in [-1, 1], most of them small.

    The largest power of two (1024 at most) with which a sum over ``rows`` stays in the range of float16.
    """
    return 2.0 ** max(-4, min(10, int(math.log2(32768 / rows))))
