"""Ordinary attention: a score, a normaliser, a weighted sum (Bahdanau et al. 2015; Luong et al. 2015).

a_t = normalise_j( score(s_t, h_j) ),     c_t = sum_j a_tj h_j
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple, Optional

from torch import Tensor

from ..ops.deferred import matmul, share
from . import register_attention
from .base import Attention, AttentionConfig, AttentionOutput
from .normalizers import build_normalizer
from .scores import build_score

__all__ = ["SoftAttention", "SoftMemory"]


class SoftMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    keys: Tensor  # [B, N, Dk]
    pad_mask: Optional[Tensor]  # [B, N]


@register_attention("soft")
class SoftAttention(Attention):
    scores_are_logits = True
    default_score: ClassVar[str] = "general"

    def __init__(self, query_dim: int, memory_dim: int, config: AttentionConfig):
        super().__init__(query_dim, memory_dim, config)
        self.score = build_score(config.score or self.default_score, query_dim, memory_dim, config.hidden_dim)
        self.normalize = build_normalizer(config.normalizer)

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor] = None) -> SoftMemory:
        return SoftMemory(share(encodings), share(self.score.precompute(encodings)), pad_mask)

    def step(
        self, query: Tensor, memory: SoftMemory, state: None = None, positions: Optional[Tensor] = None
    ) -> AttentionOutput:
        scores = self.score(query, memory.keys)
        weights = self.normalize(scores, None if memory.pad_mask is None else memory.pad_mask.unsqueeze(1))
        return AttentionOutput(matmul(weights, memory.encodings), weights, scores, None)
