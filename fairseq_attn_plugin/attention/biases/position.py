"""position: v . tanh( w_t log(1 + t) + w_j log(1 + j) + w_n log(1 + n) + b ), after Cohn et al. 2016."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor, nn

from ..positions import word_positions
from ..scores import projection
from .bias import Bias, register_bias
from .neighbours import WidthConfig

__all__ = ["PositionBias"]


@register_bias("position")
class PositionBias(Bias):
    Config = WidthConfig
    renamed = {
        "position.weight": "projection.weight",
        "position.bias": "projection.bias",
        "position_vector": "vector",
    }

    def __init__(self, query_dim: int, memory_dim: int, config: WidthConfig):
        super().__init__(query_dim, memory_dim, config)
        config.check_width()
        self.projection = projection(3, config.dim)
        self.vector = nn.Parameter(torch.empty(config.dim).uniform_(-0.1, 0.1))

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """w_j log(1 + j) + w_n log(1 + n) + b, ``[B, N, A]``."""
        words, length = word_positions(encodings, pad_mask)
        features = torch.stack([torch.zeros_like(words), words, length.expand_as(words)], dim=-1)
        return self.projection(torch.log1p(features).to(encodings.dtype))

    def forward(self, query: Tensor, memory: Tensor, state: None, positions: Optional[Tensor]) -> Tensor:
        if positions is None:
            raise ValueError("the position bias needs the argument positions: the decoder step of each query")
        dtype = torch.promote_types(memory.dtype, torch.float32)
        steps = torch.log1p(positions.to(dtype)).to(memory.dtype)
        hidden = memory.unsqueeze(1) + (steps.unsqueeze(-1) * self.projection.weight[:, 0]).unsqueeze(2)
        return torch.tanh(hidden) @ self.vector
