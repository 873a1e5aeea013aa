"""softmax: a_j = exp(x_j) / sum_k exp(x_k)."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from .normalizer import Normalizer, log_softmax, over_words, register_normalizer

__all__ = ["Softmax"]


@register_normalizer("softmax")
class Softmax(Normalizer):
    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        return over_words(scores, pad_mask, torch.softmax)

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """From the scores, which stays exact when a weight underflows."""
        return log_softmax(scores, pad_mask)
