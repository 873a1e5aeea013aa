"""fertility: v . tanh( sum_{|d| <= k} w_d C_{t, j+d} + b ),  C_tj = sum_{i < t} a_ij, how much of j is covered.

It also has a penalty, the negative log-likelihood of the words' fertilities under a prediction from their encodings
(Cohn et al. 2016: global fertility):

    - sum_j log N( sum_t a_tj ; m(h_j), v(h_j) ),   m = softplus(w_m . h_j + b_m),  v = softplus(w_v . h_j + b_v) + 0.05

The smallest variance bounds it from below: without it the likelihood of a word whose fertility is predicted exactly
would be unbounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Dict, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ...errors import OptionError
from ...options import option
from ..base import Penalty
from ..normalizers import in_full
from ..scores import projection
from .bias import Bias, register_bias
from .neighbours import WidthConfig, WindowConfig, neighbours

__all__ = ["FertilityBias"]

SMALLEST_VARIANCE = 0.05


@dataclass
class FertilityConfig(WindowConfig, WidthConfig):
    prefix: ClassVar[str] = "attention_fertility"

    weight: float = option(0.1, "factor of the fertility bias's penalty in the loss; 0 has none (default: 0.1)")


class FertilityMemory(NamedTuple):
    """The prediction m(h_j) and v(h_j); without a penalty the bias has no memory."""

    pad_mask: Optional[Tensor]  # [B, N]
    mean: Tensor  # [B, N]
    variance: Tensor  # [B, N]


@register_bias("fertility")
class FertilityBias(Bias):
    """Its state is C, ``[B, T, N]``, in float32 or better."""

    Config = FertilityConfig
    recurrent = True
    renamed = {
        "fertility.weight": "projection.weight",
        "fertility.bias": "projection.bias",
        "fertility_vector": "vector",
        "predicted.weight": "predicted.weight",
        "predicted.bias": "predicted.bias",
    }

    def __init__(self, query_dim: int, memory_dim: int, config: FertilityConfig):
        super().__init__(query_dim, memory_dim, config)
        config.check_window()
        config.check_width()
        if not (0 <= config.weight < math.inf):
            raise OptionError(f"--attention-fertility-weight {config.weight}: must be 0 or more")
        self.projection = projection(2 * config.window + 1, config.dim)
        self.vector = nn.Parameter(torch.empty(config.dim).uniform_(-0.1, 0.1))
        self.predicted = projection(memory_dim, 2) if config.weight else None

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Optional[FertilityMemory]:
        if self.predicted is None:
            return None
        mean, variance = F.softplus(in_full(self.predicted(encodings))).unbind(-1)
        return FertilityMemory(pad_mask, mean, variance + SMALLEST_VARIANCE)

    def initial_state(self, encodings: Tensor) -> Tensor:
        return in_full(encodings.new_zeros(encodings.size(0), 1, encodings.size(1)))

    def forward(
        self, query: Tensor, memory: Optional[FertilityMemory], state: Tensor, positions: Optional[Tensor]
    ) -> Tensor:
        windows = neighbours(state, self.config.window).to(self.vector.dtype)
        return torch.tanh(self.projection(windows)) @ self.vector

    def advance(self, state: Tensor, weights: Tensor) -> Tensor:
        return state + weights

    def penalties(
        self, memory: Optional[FertilityMemory], weights: Tensor, step_mask: Optional[Tensor]
    ) -> Dict[str, Penalty]:
        """The penalty of the module's text."""
        if memory is None:
            return {}
        weights = in_full(weights)
        if step_mask is not None:
            weights = weights.masked_fill(step_mask.unsqueeze(-1), 0.0)
        distance = weights.sum(1) - memory.mean
        costs = 0.5 * (distance.square() / memory.variance + torch.log(2 * math.pi * memory.variance))
        if memory.pad_mask is not None:
            costs = costs.masked_fill(memory.pad_mask, 0.0)
        return {"fertility_penalty": Penalty(costs.sum(), self.config.weight)}
