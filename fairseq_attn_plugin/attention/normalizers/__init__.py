"""Normalisers: scores ``[..., N]`` to non-negative weights that sum to one over the real positions. One file each.

    softmax     argmax_p  p . x + H(p)            (H: Shannon's entropy)
    sparsemax   argmax_p  p . x - |p|^2 / 2       (Martins and Astudillo 2016)
    entmax15    argmax_p  p . x + H_1.5(p)        (Peters, Niculae and Martins 2019; H_1.5: Tsallis' entropy)
    fusedmax    argmax_p  p . x - |p|^2 / 2 - lambda sum_j |p_{j+1} - p_j|      (Niculae and Blondel 2017)

p ranges over the probability simplex. All but softmax give exact zeros; the library entmax computes sparsemax and
entmax15.
"""

from __future__ import annotations

from ..part_registry import import_all
from .normalizer import (
    LOG_ZERO,
    NORMALIZERS,
    Normalizer,
    build_normalizer,
    divide_by_maximum,
    in_full,
    log_of_weights,
    log_softmax,
    over_words,
    register_normalizer,
)

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

import_all(__name__, __path__)
