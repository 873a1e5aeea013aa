"""dot: s . h_j (Luong et al. 2015), and scaled_dot: s . h_j / sqrt(D) (Vaswani et al. 2017)."""

from __future__ import annotations

import math

from torch import Tensor

from ...errors import OptionError
from ...ops.deferred import matmul_transposed
from ..part_registry import PartConfig
from .score import Score, register_score

__all__ = ["DotScore", "ScaledDotScore"]


@register_score("dot")
class DotScore(Score):
    def __init__(self, query_dim: int, memory_dim: int, config: PartConfig):
        super().__init__(query_dim, memory_dim, config)
        if query_dim != memory_dim:
            raise OptionError(
                f"--attention-score {self.name}: the decoder state has {query_dim} units (--decoder-hidden-size) and "
                f"the source encodings have {memory_dim} (--encoder-hidden-size, doubled by "
                "--encoder-bidirectional); make them equal, or choose general or additive"
            )

    def precompute(self, encodings: Tensor) -> Tensor:
        return encodings

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query, keys)


@register_score("scaled_dot")
class ScaledDotScore(DotScore):
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query * (1 / math.sqrt(query.size(-1))), keys)  # Vaswani et al. 2017, eq. 1
