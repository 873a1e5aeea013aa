"""The precision of matrix products, and of operations that are written by hand, under autocast and without.

Training with ``--matmul-precision bfloat16`` computes the products of float32 tensors in bfloat16. The model enters
:func:`products_in` for its forward pass. What is computed of its results elsewhere, as a criterion does, enters it with
:func:`precision_of` the model. A product notes its precision for the backward pass.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager, nullcontext
from typing import Any, ContextManager, Iterator

import torch
from torch import Tensor, nn

__all__ = ["autocast_enabled", "float16_scale", "precision_of", "product_type", "products_in", "without_autocast"]

_STATE = threading.local()


@contextmanager
def products_in(precision: torch.dtype) -> Iterator[None]:
    """A context, of this thread, in which products of float32 tensors are computed in ``precision``."""
    before = getattr(_STATE, "precision", torch.float32)
    _STATE.precision = precision
    try:
        yield
    finally:
        _STATE.precision = before


def precision_of(model: nn.Module) -> torch.dtype:
    """The precision in which a model's products are computed now: its own in training, float32 otherwise."""
    return getattr(model, "matmul_precision", torch.float32) if model.training else torch.float32


def autocast_enabled(like: Tensor) -> bool:
    """Whether autocast is on for the device of a tensor."""
    return torch.is_autocast_cpu_enabled() if like.device.type == "cpu" else torch.is_autocast_enabled()


def product_type(like: Tensor) -> torch.dtype:
    """The type in which matrix products of a tensor are computed: autocast's if it is on, except for float64, or that
    of :func:`products_in` for float32."""
    if not autocast_enabled(like) or like.dtype == torch.float64:
        return getattr(_STATE, "precision", torch.float32) if like.dtype == torch.float32 else like.dtype
    return torch.get_autocast_cpu_dtype() if like.device.type == "cpu" else torch.get_autocast_gpu_dtype()


def without_autocast(like: Tensor) -> ContextManager[Any]:
    """A context in which autocast is off for the device of a tensor."""
    return torch.autocast(like.device.type, enabled=False) if autocast_enabled(like) else nullcontext()


def float16_scale(rows: int) -> float:
    """The factor of logit gradients in a float16 product: numbers in [-1, 1], most of them small.

    The largest power of two (1024 at most) with which a sum over ``rows`` stays in the range of float16.
    """
    return 2.0 ** max(-4, min(10, int(math.log2(32768 / rows))))
