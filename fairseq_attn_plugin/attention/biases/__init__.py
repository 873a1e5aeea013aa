"""Biases added to the scores of any mechanism: prior knowledge about alignments. One file each.

With t and j counted from 0 (padding before a sentence does not count), n the sentence's length and a_tj the weights,

    position    v . tanh( w_t log(1 + t) + w_j log(1 + j) + w_n log(1 + n) + b )
    markov      sum_{|d| <= k} u_d a_{t-1, j+d}                                 where the previous step looked
    fertility   v . tanh( sum_{|d| <= k} w_d C_{t, j+d} + b ),  C_tj = sum_{i < t} a_ij     how much of j is covered

after Cohn, Hoang, Vymolova, Yao, Dyer and Haffari 2016, "Incorporating Structural Alignment Biases into an Attentional
Neural Translation Model" (there they are inputs of the additive score; as terms of their own they go with any score).
"""

from __future__ import annotations

from ..part_registry import import_all
from .bias import BIASES, Bias, BiasConfig, Biases, BiasMemory, BiasState, parse_biases, register_bias

__all__ = [
    "BIASES",
    "Bias",
    "BiasConfig",
    "BiasMemory",
    "BiasState",
    "Biases",
    "parse_biases",
    "register_bias",
]

import_all(__name__, __path__)
