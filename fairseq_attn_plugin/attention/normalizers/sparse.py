"""sparsemax (Martins and Astudillo 2016) and entmax15 (Peters, Niculae and Martins 2019), by the library entmax."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from ..part_registry import PartConfig
from .normalizer import Normalizer, over_words, register_normalizer

__all__ = ["Entmax15", "Sparsemax"]

# Padding's score: low enough to get no weight, high enough for the running sums of these algorithms not to overflow.
_FILL = -1e6


@register_normalizer("sparsemax")
class Sparsemax(Normalizer):
    sparse = True

    def __init__(self, config: PartConfig):
        super().__init__(config)
        from entmax import sparsemax

        self.activation = sparsemax

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        return over_words(scores, pad_mask, self.activation, _FILL)


@register_normalizer("entmax15")
class Entmax15(Normalizer):
    sparse = True

    def __init__(self, config: PartConfig):
        super().__init__(config)
        from entmax import entmax15

        self.activation = entmax15

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        return over_words(scores, pad_mask, self.activation, _FILL)
