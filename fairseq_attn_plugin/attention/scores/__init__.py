"""Score functions: how well a decoder state s fits an encoding h_j. One file each.

    dot         s . h_j                          (Luong et al. 2015)
    scaled_dot  s . h_j / sqrt(D)                (Vaswani et al. 2017)
    general     s . (W h_j)                      (Luong et al. 2015; "bilinear"), or g s . (W h_j)
    additive    u . tanh(W s + V h_j + b)        (Bahdanau et al. 2015; "MLP"), or without b

A score is split in two: :meth:`Score.precompute` makes one key per encoding, :meth:`Score.forward` compares
queries with keys.
"""

from __future__ import annotations

from ..part_registry import import_all
from .additive import AdditiveScore
from .dot import DotScore, ScaledDotScore
from .general import GeneralScore
from .score import SCORES, Score, ScoreConfig, build_score, projection, register_score

__all__ = [
    "SCORES",
    "AdditiveScore",
    "DotScore",
    "GeneralScore",
    "ScaledDotScore",
    "Score",
    "ScoreConfig",
    "build_score",
    "projection",
    "register_score",
]

import_all(__name__, __path__)
