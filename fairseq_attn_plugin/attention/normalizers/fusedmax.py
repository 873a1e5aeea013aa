"""fusedmax: sparsemax of scores whose total variation is penalised (Niculae and Blondel 2017).

    fusedmax(x) = argmin_p  |p - x|^2 / 2 + lambda sum_j |p_{j+1} - p_j|  =  sparsemax(prox(x))

Neighbouring words get equal weights, in groups; other groups get exact zeros. lambda is ``--fusedmax-strength``;
without it fusedmax is sparsemax. The prox is that of :mod:`fairseq_attn_plugin.ops.total_variation`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Optional

import torch
from torch import Tensor

from ...errors import OptionError
from ...ops.total_variation import total_variation_prox
from ...options import option
from ..part_registry import PartConfig
from .normalizer import in_full, register_normalizer
from .sparse import Sparsemax

__all__ = ["Fusedmax", "FusedmaxConfig"]


@dataclass
class FusedmaxConfig(PartConfig):
    prefix: ClassVar[str] = "fusedmax"

    strength: float = option(0.1, "lambda, the price of a difference between neighbours' weights (default: 0.1)")


@register_normalizer("fusedmax")
class Fusedmax(Sparsemax):
    Config = FusedmaxConfig

    def __init__(self, config: FusedmaxConfig):
        super().__init__(config)
        if not (0 <= config.strength < math.inf):
            raise OptionError(f"--fusedmax-strength {config.strength}: must be 0 or more")

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        x = in_full(scores)
        real = torch.ones_like(x, dtype=torch.bool) if pad_mask is None else ~pad_mask.expand_as(x)
        smooth = total_variation_prox(x, real, self.config.strength)
        return super().forward(smooth, pad_mask).type_as(scores)
