"""The contract of normalisers, their registry, and logarithms of weights.

A normaliser turns scores ``[..., N]`` into non-negative weights that sum to one over the real positions. It computes in
float32 for half-precision scores and returns the type of the scores.
"""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Optional

import torch
from torch import Tensor

from ..part_registry import Part, Parts

__all__ = [
    "LOG_ZERO",
    "NORMALIZERS",
    "Normalizer",
    "build_normalizer",
    "divide_by_maximum",
    "in_full",
    "log_of_weights",
    "log_softmax",
    "over_words",
    "register_normalizer",
]

# Padding's log weight: exp of it is zero, and sums with it stay finite.
LOG_ZERO = -1e4
# Weights below this count as this in logarithms: the gradient of log p at an underflowed p would not be finite.
_SMALLEST = 1e-30


class Normalizer(Part):
    """Scores to weights.

    Args:
        config: the options of the class

    Attributes:
        sparse: whether weights of real positions may be exactly zero

    Raises:
        OptionError: options with wrong values
    """

    sparse: ClassVar[bool] = False

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """Weights of scores ``[..., N]``.

        Args:
            scores: meaningless on padding
            pad_mask: True on padding, of a shape that broadcasts to that of the scores; None without padding
        """
        raise NotImplementedError

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """log of the weights of these scores, in float32 or better; ``LOG_ZERO`` on padding. A normaliser that knows
        the logarithms without the weights overrides it."""
        return log_of_weights(weights, pad_mask)


NORMALIZERS: Parts[Normalizer] = Parts("normalizer", "normaliser")
register_normalizer = NORMALIZERS.register


def build_normalizer(name: str, **options: Any) -> Normalizer:
    """The normaliser ``name``, with options by full name.

    Raises:
        OptionError: unknown name, or a wrong value
    """
    return NORMALIZERS.find(name)(NORMALIZERS.configure(name, options))


def in_full(x: Tensor) -> Tensor:
    """Half precision to float32; other types are unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def over_words(
    scores: Tensor,
    pad_mask: Optional[Tensor],
    activation: Callable[..., Tensor],
    fill: float = torch.finfo(torch.float32).min,
) -> Tensor:
    """``activation(scores, dim=-1)`` in float32 or better, without padding.

    Args:
        scores: ``[..., N]``
        pad_mask: True on padding, or None
        activation: that gives weights of zero to positions with the score ``fill``
        fill: score of padding. It is finite: a row of padding only stays free of NaN, forward and backward.
    """
    x = in_full(scores)
    if pad_mask is None:
        return activation(x, dim=-1).type_as(scores)
    return activation(x.masked_fill(pad_mask, fill), dim=-1).masked_fill(pad_mask, 0.0).type_as(scores)


def log_softmax(scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """log softmax over the real positions, in float32 or better; ``LOG_ZERO`` on padding."""
    x = in_full(scores)
    if pad_mask is None:
        return x.log_softmax(-1)
    return x.masked_fill(pad_mask, torch.finfo(torch.float32).min).log_softmax(-1).masked_fill(pad_mask, LOG_ZERO)


def log_of_weights(weights: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """log of any normaliser's weights, in float32 or better; ``LOG_ZERO`` on padding, log 1e-30 where a weight is
    less than that (sparse normalisers give exact zeros)."""
    logs = in_full(weights).clamp(min=_SMALLEST).log()
    return logs if pad_mask is None else logs.masked_fill(pad_mask, LOG_ZERO)


def divide_by_maximum(weights: Tensor) -> Tensor:
    """Weights ``[..., N]`` divided by the greatest of each row; rows of zeros stay zeros.

    A greatest weight below 1e-30 (in float16 below its smallest normal number) counts as that: its reciprocal, which
    the gradient has, would not be finite.
    """
    x = in_full(weights)
    smallest = max(_SMALLEST, torch.finfo(weights.dtype).tiny)
    return (x / x.amax(-1, keepdim=True).clamp(min=smallest)).type_as(weights)
