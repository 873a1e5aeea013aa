"""Normalisers: scores ``[..., N]`` to non-negative weights that sum to one over the real positions.

    softmax     argmax_p  p . x + H(p)            (H: Shannon's entropy)
    sparsemax   argmax_p  p . x - |p|^2 / 2       (Martins and Astudillo 2016)
    entmax15    argmax_p  p . x + H_1.5(p)        (Peters, Niculae and Martins 2019; H_1.5: Tsallis' entropy)

p ranges over the probability simplex. The latter two give exact zeros; they are the library entmax's. All are
computed in float32 for half-precision scores and return the scores' type.
"""

from __future__ import annotations

import functools
from typing import Callable, Dict, List, Optional

import torch
from torch import Tensor

from ..errors import OptionError

__all__ = ["build_normalizer", "normalizer_names"]

Normalizer = Callable[[Tensor, Optional[Tensor]], Tensor]


def _masked(scores: Tensor, pad_mask: Optional[Tensor], activation: Callable[..., Tensor], fill: float) -> Tensor:
    x = scores.float() if scores.dtype in (torch.float16, torch.bfloat16) else scores
    if pad_mask is None:
        return activation(x, dim=-1).type_as(scores)
    # A finite fill keeps a row that is all padding free of NaN, both ways; its weights become zero.
    x = x.masked_fill(pad_mask, fill)
    return activation(x, dim=-1).masked_fill(pad_mask, 0.0).type_as(scores)

    # A finite fill keeps a row of padding only free of NaN, forward and backward; its weights become zero below.


# the running sums of these algorithms overflow.
_SPARSE_FILL = -1e6


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
