"""Attention with a learned penalty of distance: a_tj = softmax_j( score(s_t, h_j) - softplus(w) |j - t| / scale ), and
a normaliser, softmax(x / temperature).

fairseq-train DATA --user-dir docs/examples/distance_attention --arch lstm_soft --attention distance --distance-scale 5
"""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Optional

import torch
from torch import Tensor, nn

from fairseq_attn_plugin.attention import (
    AttentionConfig,
    Normalizer,
    PartConfig,
    ScoredAttention,
    over_words,
    register_attention,
    register_normalizer,
    word_positions,
)
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import option


@dataclass
class DistanceConfig(AttentionConfig):
    prefix: ClassVar[str] = "distance"
    scale: float = option(5.0, "source positions that cost softplus(w) (default: 5)")  # becomes --distance-scale


class DistanceMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    keys: Tensor  # [B, N, Dk]
    words: Tensor  # [B, N], the number of each word in its sentence
    pad_mask: Optional[Tensor]  # [B, N], True on padding
    bias: Any = None  # of --attention-bias


@register_attention("distance")
class DistanceAttention(ScoredAttention):
    Config = DistanceConfig

    def __init__(self, query_dim: int, memory_dim: int, config: DistanceConfig):
        super().__init__(query_dim, memory_dim, config)
        self.slope = nn.Parameter(torch.zeros(()))

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> DistanceMemory:
        words, _ = word_positions(encodings, pad_mask)
        return DistanceMemory(encodings, self.score.precompute(encodings), words, pad_mask)

    def _score(self, query: Tensor, memory: DistanceMemory) -> Tensor:
        return self.score(query, memory.keys)

    def _weigh(self, scores: Tensor, query: Tensor, memory: DistanceMemory, positions: Tensor) -> Tensor:
        distance = (memory.words.unsqueeze(1) - positions.unsqueeze(2)).abs() / self.config.scale
        penalised = scores - nn.functional.softplus(self.slope) * distance.to(scores)
        return super()._weigh(penalised, query, memory, positions)


@dataclass
class TemperedConfig(PartConfig):
    prefix: ClassVar[str] = "tempered"
    temperature: float = option(1.0, "of the softmax: below 1 sharper, above 1 flatter (default: 1)")


@register_normalizer("tempered")
class Tempered(Normalizer):
    Config = TemperedConfig

    def __init__(self, config: TemperedConfig):
        super().__init__(config)
        if not config.temperature > 0:
            raise OptionError(f"--tempered-temperature {config.temperature}: must be above 0")

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        return over_words(scores / self.config.temperature, pad_mask, torch.softmax)
