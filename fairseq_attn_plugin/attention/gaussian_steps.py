"""Gaussian attention whose steps compute their weights instead of looking them up: for long sources, and for graphs of
another program.

The formula is that of :mod:`fairseq_attn_plugin.attention.gaussian_rows`, for one step t at a time.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from .base import TAKES, Attention, AttentionOutput
from .gaussian_rows import Curve
from .normalizers import LOG_ZERO, build_normalizer, divide_by_maximum
from .positions import word_positions
from .windows import HALF, RULES, Rule

__all__ = ["GaussianSteps", "StepsMemory"]

_MOST_DIGITS = 20  # of a sentence's length, to the base 2
_softmax = build_normalizer("softmax")


class StepsMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    outside: Tensor  # [B, N], True on padding
    words: Tensor  # [B, N], the number of each word in its sentence
    last: Tensor  # [B, 1], the number of the last word
    reach: Tensor  # [B, 1], k: positions on either side of the centre
    tokens: Optional[Tensor] = None  # [B, N], source words, where further votes look for them


class GaussianSteps(Attention):
    """The weights of a Gaussian mechanism.

    Args:
        attention: the mechanism
        curve: its numbers

    Attributes:
        table: ``[V, H]``, the source words that get further votes, by target word; None without votes
        share: what a vote adds
    """

    takes = TAKES
    table: Optional[Tensor]

    def __init__(self, attention: Attention, curve: Curve):
        super().__init__(attention.query_dim, attention.memory_dim, attention.config)
        self.takes = attention.takes  # type: ignore[misc]
        self.normalized, self.curve, self.share = attention.normalized, curve, 0.0
        self.register_buffer("table", None)

    def precompute(
        self, encodings: Tensor, pad_mask: Optional[Tensor] = None, source_tokens: Optional[Tensor] = None
    ) -> StepsMemory:
        words, length = word_positions(encodings, pad_mask)
        outside = words < 0 if pad_mask is None else pad_mask
        last = (length - 1).clamp(min=0)
        votes = None if self.table is None else source_tokens
        return StepsMemory(encodings, outside, words, last, _reach(self.curve.rule, last), votes)

    def step(
        self,
        query: Tensor,
        memory: StepsMemory,
        state: Any = None,
        positions: Optional[Tensor] = None,
        inputs: Optional[Tensor] = None,
    ) -> AttentionOutput:
        assert positions is not None
        centre = torch.minimum(positions.to(memory.last.dtype) / self.curve.ratio, memory.last)
        nearest = torch.floor(centre + HALF).unsqueeze(-1)
        place = memory.words.unsqueeze(1)
        outside = ((place - nearest).abs() > memory.reach.unsqueeze(1)) | memory.outside.unsqueeze(1)
        distance = place - (centre + self.curve.mean).unsqueeze(-1)
        scores = distance.square() * (-0.5 / self.curve.sigma / self.curve.sigma)
        weights = _softmax(scores, outside)
        if self.curve.divided:
            weights = divide_by_maximum(weights)
        scores = scores.masked_fill(outside, LOG_ZERO).clamp(min=LOG_ZERO)
        if memory.tokens is not None and self.table is not None:
            named = (self.table[inputs].unsqueeze(-1) == memory.tokens[:, None, None]).any(2)
            receives = named & (place != nearest) & ~memory.outside.unsqueeze(1)
            weights = weights + self.share * receives.to(weights.dtype)
        weights, scores = weights.to(memory.encodings.dtype), scores.to(memory.encodings.dtype)
        return AttentionOutput(weights @ memory.encodings, weights, scores, state)


def _reach(rule: Rule, words: Tensor) -> Tensor:
    """k of sentences of so many words, ``[B, 1]``, as :meth:`Rule.window`."""
    if rule.name == "half":
        return torch.floor(words / 2)
    if rule.name not in RULES:
        return (words > 0) * float(rule.name)
    base = int(rule.name[3:])
    powers = torch.tensor([float(base**k) for k in range(1, int(_MOST_DIGITS / math.log2(base)) + 1)])
    return (words.unsqueeze(-1) >= powers.to(words)).to(words.dtype).sum(-1)
