"""general: s . (W h_j) (Luong et al. 2015; "bilinear"), or g s . (W h_j).

The gain g (``--attention-score-gain``) is a trained number that starts at 1, as in the "scaled Luong" attention of
TensorFlow's seq2seq tutorial (Luong, Brevdo and Zhao 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ...ops.deferred import matmul_transposed
from ...options import option
from .score import Score, ScoreConfig, projection, register_score

__all__ = ["GeneralScore"]


@dataclass
class GeneralConfig(ScoreConfig):
    gain: bool = option(
        False,
        "multiply the general score by a trained number that starts at 1 (scaled Luong attention)",
        before=False,
    )


@register_score("general")
class GeneralScore(Score):
    """W and the gain are applied to the encodings, once per sentence, and not to every query."""

    Config = GeneralConfig

    def __init__(self, query_dim: int, memory_dim: int, config: GeneralConfig):
        super().__init__(query_dim, memory_dim, config)
        self.projection = projection(memory_dim, query_dim, bias=False)
        if config.gain:
            self.gain = nn.Parameter(torch.ones(()))

    def precompute(self, encodings: Tensor) -> Tensor:
        return self.scaled(self.projection(encodings))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query, keys)
