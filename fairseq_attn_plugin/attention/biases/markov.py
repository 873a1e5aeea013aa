"""markov: sum_{|d| <= k} u_d a_{t-1, j+d}, where the previous step looked (Cohn et al. 2016)."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from ..scores import projection
from .bias import Bias, register_bias
from .neighbours import WindowConfig, neighbours

__all__ = ["MarkovBias"]


@register_bias("markov")
class MarkovBias(Bias):
    """Its state is the weights of the step before, ``[B, T, N]``."""

    Config = WindowConfig
    recurrent = True
    renamed = {"markov.weight": "projection.weight"}

    def __init__(self, query_dim: int, memory_dim: int, config: WindowConfig):
        super().__init__(query_dim, memory_dim, config)
        config.check_window()
        self.projection = projection(2 * config.window + 1, 1, bias=False)

    def initial_state(self, encodings: Tensor) -> Tensor:
        return encodings.new_zeros(encodings.size(0), 1, encodings.size(1))

    def forward(self, query: Tensor, memory: None, state: Tensor, positions: Optional[Tensor]) -> Tensor:
        return self.projection(neighbours(state, self.config.window)).squeeze(-1)

    def advance(self, state: Tensor, weights: Tensor) -> Tensor:
        return weights
