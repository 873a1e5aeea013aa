"""Local attention (Luong, Pham and Manning 2015, section 3.2): a window of the source around a position p_t.

    local-m   p_t = t, monotonic; a_t = normalise of the scores of [p_t - D, p_t + D], nothing elsewhere
    local-p   p_t = n sigmoid( v . tanh(W s_t) ) (eq. 9), predicted; the same, times exp( -(j - p_t)^2 / (2 (D/2)^2) )
              (eq. 10), after which the weights sum to less than one

Positions are counted from 0 and n is the sentence's length, end of sentence included; t stops at the last word. As in
the paper, the edge of the window has no gradient. D is ``--local-window``.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Optional

import torch
from torch import Tensor, nn

from ..ops.deferred import share
from ..ops.precision import in_full
from ..options import option
from .base import AttentionConfig, word_positions
from .biases import BiasMemory
from .part_registry import need_own
from .registry import register_attention
from .scored import ScoredAttention
from .scores import projection


@dataclass
class LocalConfig(AttentionConfig):
    prefix: ClassVar[str] = "local"

    window: int = option(10, "D, source positions on either side of local attention's centre (default: 10)")


class LocalMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    keys: Tensor  # [B, N, Dk]
    pad_mask: Optional[Tensor]  # [B, N]
    words: Tensor  # [B, N], each word's number in its sentence
    length: Tensor  # [B, 1]
    bias: Optional[BiasMemory] = None


class LocalAttention(ScoredAttention):
    """The common part of both: scores, and the window around a centre."""

    Config = LocalConfig
    sparse = True  # outside the window
    config: LocalConfig

    def __init__(self, query_dim: int, memory_dim: int, config: LocalConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(config.window >= 1, config, "window", "at least 1 position on either side")

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> LocalMemory:
        words, length = word_positions(encodings, pad_mask)
        return LocalMemory(share(encodings), share(self.score.precompute(encodings)), pad_mask, words, length)

    def _centre(self, query: Tensor, memory: LocalMemory, positions: Optional[Tensor]) -> Tensor:
        """p_t ``[B, T]`` of every query, in float32 or better."""
        raise NotImplementedError

    def _weigh(self, scores: Tensor, query: Tensor, memory: LocalMemory, positions: Optional[Tensor]) -> Tensor:
        distance = memory.words.unsqueeze(1) - self._centre(query, memory, positions).unsqueeze(-1)
        outside = distance.detach().abs() > self.config.window
        if memory.pad_mask is not None:
            outside = outside | memory.pad_mask.unsqueeze(1)
        return self._shape(self.normalize(scores, outside), distance)

    def _shape(self, weights: Tensor, distance: Tensor) -> Tensor:
        return weights


@register_attention("local-m")
class LocalMonotonicAttention(LocalAttention):
    def _centre(self, query: Tensor, memory: LocalMemory, positions: Optional[Tensor]) -> Tensor:
        if positions is None:
            raise ValueError("local-m needs the argument positions: the decoder step of each query")
        return torch.minimum(positions.to(memory.length.dtype), (memory.length - 1).clamp(min=0))


@register_attention("local-p")
class LocalPredictiveAttention(LocalAttention):
    normalized = False

    def __init__(self, query_dim: int, memory_dim: int, config: LocalConfig):
        super().__init__(query_dim, memory_dim, config)
        self.centre_projection = projection(query_dim, query_dim, bias=False)
        self.centre_vector = nn.Parameter(torch.empty(query_dim).uniform_(-0.1, 0.1))

    def _centre(self, query: Tensor, memory: LocalMemory, positions: Optional[Tensor]) -> Tensor:
        where = in_full(torch.tanh(self.centre_projection(query)) @ self.centre_vector)
        return memory.length * torch.sigmoid(where)  # eq. 9

    def _shape(self, weights: Tensor, distance: Tensor) -> Tensor:
        # eq. 10, with sigma = D / 2
        return (weights * torch.exp(-2.0 * (distance / self.config.window).square())).type_as(weights)
