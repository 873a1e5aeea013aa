"""The precision of operations that are written by hand, under autocast and without."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, ContextManager

import torch
from torch import Tensor

__all__ = ["autocast_enabled", "product_type", "without_autocast"]


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
