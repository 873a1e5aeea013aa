"""additive: u . tanh(W s + V h_j + b) (Bahdanau et al. 2015; "MLP"), or without b (Deng et al. 2018).

This is equation 5 of Charalampous and Chatzis, "Quantum Statistics-Inspired Neural Attention".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Optional

import torch
from torch import Tensor, nn

from ...errors import OptionError
from ...options import option
from ..part_registry import PartConfig
from .score import Score, ScoreConfig, projection, register_score

__all__ = ["AdditiveScore"]


@dataclass
class WidthConfig(PartConfig):
    prefix: ClassVar[str] = "attention"

    hidden_dim: Optional[int] = option(None, "width of the additive score (default: the decoder's hidden size)")


@dataclass
class AdditiveConfig(ScoreConfig, WidthConfig):
    prefix: ClassVar[str] = "attention_score"

    no_bias: bool = option(False, "additive score without its bias b")


@register_score("additive")
class AdditiveScore(Score):
    Config = AdditiveConfig

    def __init__(self, query_dim: int, memory_dim: int, config: AdditiveConfig):
        super().__init__(query_dim, memory_dim, config)
        if config.hidden_dim is not None and config.hidden_dim < 1:
            raise OptionError(f"--attention-hidden-dim {config.hidden_dim}: must be at least 1")
        hidden_dim = config.hidden_dim or query_dim
        self.query_projection = projection(query_dim, hidden_dim, bias=False)
        self.memory_projection = projection(memory_dim, hidden_dim, bias=not config.no_bias)
        self.vector = nn.Parameter(torch.empty(hidden_dim).uniform_(-0.1, 0.1))

    def precompute(self, encodings: Tensor) -> Tensor:
        return self.memory_projection(encodings)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        hidden = self.query_projection(query).unsqueeze(2) + keys.unsqueeze(1)
        return torch.matmul(torch.tanh(hidden), self.vector)  # eq. 5
