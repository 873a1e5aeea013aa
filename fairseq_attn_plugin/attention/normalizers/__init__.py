"""Normalisers: scores ``[..., N]`` to non-negative weights that sum to one over the real positions.

    softmax     argmax_p  p . x + H(p)            (H: Shannon's entropy)
    sparsemax   argmax_p  p . x - |p|^2 / 2       (Martins and Astudillo 2016)
    entmax15    argmax_p  p . x + H_1.5(p)        (Peters, Niculae and Martins 2019; H_1.5: Tsallis' entropy)

p ranges over the probability simplex. sparsemax and entmax15 give exact zeros; the library entmax computes them. All
are computed in float32 for half-precision scores and return the type of the scores.
"""

from __future__ import annotations

import functools
from typing import Callable, Dict, List, Optional

import torch
from torch import Tensor

from ..errors import OptionError

__all__ = [
    "LOG_ZERO",
    "build_normalizer",
    "divide_by_maximum",
    "in_full",
    "log_of_weights",
    "log_softmax",
    "normalizer_names",
]

Normalizer = Callable[[Tensor, Optional[Tensor]], Tensor]


# Padding's score for sparsemax and entmax15: low enough to get no weight, high enough for the running sums of these
# algorithms not to overflow.
_SPARSE_FILL = -1e6
# Padding's log weight: exp of it is zero, and sums with it stay finite.
LOG_ZERO = -1e4
# Weights below this count as this in logarithms: the gradient of log p at an underflowed p would not be finite.
_SMALLEST = 1e-30


def in_full(x: Tensor) -> Tensor:
    """Half precision to float32; other types are unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def _masked(scores: Tensor, pad_mask: Optional[Tensor], activation: Callable[..., Tensor], fill: float) -> Tensor:
    x = in_full(scores)
    if pad_mask is None:
        return activation(x, dim=-1).type_as(scores)
    # A finite fill keeps a row of padding only free of NaN, forward and backward; its weights become zero below.
    x = x.masked_fill(pad_mask, fill)
    return activation(x, dim=-1).masked_fill(pad_mask, 0.0).type_as(scores)


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


def _softmax() -> Normalizer:
    return functools.partial(_masked, activation=torch.softmax, fill=torch.finfo(torch.float32).min)


def _sparsemax() -> Normalizer:
    from entmax import sparsemax

    return functools.partial(_masked, activation=sparsemax, fill=_SPARSE_FILL)


def _entmax15() -> Normalizer:
    from entmax import entmax15

    return functools.partial(_masked, activation=entmax15, fill=_SPARSE_FILL)


_NORMALIZERS: Dict[str, Callable[[], Normalizer]] = {
    "softmax": _softmax,
    "sparsemax": _sparsemax,
    "entmax15": _entmax15,
}


def normalizer_names() -> List[str]:
    return sorted(_NORMALIZERS)


def build_normalizer(name: str) -> Normalizer:
    """The normaliser ``name``: a function of scores ``[..., N]`` and a mask that broadcasts to them (True on
    padding) or None.

    Raises:
        OptionError: unknown name
    """
    if name not in _NORMALIZERS:
        raise OptionError(
            f"--attention-normalizer {name}: unknown normaliser; choose from {', '.join(normalizer_names())}"
        )
    return _NORMALIZERS[name]()
