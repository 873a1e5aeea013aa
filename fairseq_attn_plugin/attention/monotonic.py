"""Attention that reads the source from left to right and never goes back, so that a model can translate while it reads.

    monotonic   stops at one word per step (Raffel et al. 2017, "Online and Linear-Time Attention by Enforcing Monotonic
                Alignments")
    mocha       soft attention to the last ``--monotonic-chunk`` words up to there (Chiu and Raffel 2018, "Monotonic
                Chunkwise Attention")

Step t goes on from where step t - 1 stopped, and stops at word j with probability p_tj = sigmoid(score(s_t, h_j) + r),
where r is trained from ``--monotonic-offset``. In training the weights are the probabilities of where it stops, over
all choices (:mod:`fairseq_attn_plugin.ops.monotonic`), and noise before the sigmoid, N(0, ``--monotonic-noise``^2),
teaches scores far from zero. In evaluation it stops at the first word with p > 1/2: the same recurrence of zeros and
ones. ``mocha`` has a score of its own for the words of a chunk.

Who comes to the last word, the end of the sentence, stays there (p = 1), so that weights sum to one. With
``--monotonic-lossy``, as in the papers, he may pass it by and attends to nothing from then on: a zero context.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Optional

import torch
from torch import Tensor, nn

from ..ops.deferred import matmul, share
from ..ops.monotonic import chunk_weights, monotonic_step
from ..ops.precision import in_full
from ..options import option
from .base import Attention, AttentionConfig, AttentionOutput
from .biases import BiasMemory, BiasState
from .part_registry import need_own
from .registry import register_attention
from .scored import ScoredAttention
from .scores import SCORES

_NOTHING = -1e9  # the energy of padding


@dataclass
class MonotonicConfig(AttentionConfig):
    prefix: ClassVar[str] = "monotonic"

    offset: float = option(-1.0, "first value of r, which is added to the scores of stopping (default: -1)")
    noise: float = option(1.0, "standard deviation of the noise of these scores in training (default: 1)")
    lossy: bool = option(False, "who passes the last word by attends to nothing, as in the papers")


@dataclass
class MochaConfig(MonotonicConfig):
    chunk: int = option(3, "words of a chunk of mocha, up to where it stops (default: 3)")


class MonotonicMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    keys: Tensor  # [B, N, Dk]
    pad_mask: Optional[Tensor]  # [B, N]
    ends: Tensor  # [B, N, 2], True on the first word, and on the last
    chunk_keys: Optional[Tensor] = None  # [B, N, Dk]
    bias: Optional[BiasMemory] = None


class MonotonicState(NamedTuple):
    last: Tensor  # [B, T, N], where the last step stopped, in float32 or better
    bias: Optional[BiasState]


@register_attention("monotonic")
class MonotonicAttention(ScoredAttention):
    """Attends to the word at which it stops."""

    Config = MonotonicConfig
    takes = frozenset({"bias"})
    default_score = "additive"
    to_normalize = "without --monotonic-lossy they do"
    hard_in_evaluation = True
    config: MonotonicConfig

    def __init__(self, query_dim: int, memory_dim: int, config: MonotonicConfig):
        super().__init__(query_dim, memory_dim, config)
        self.recurrent, self.normalized = True, not config.lossy
        need_own(math.isfinite(config.offset), config, "offset", "a number")
        need_own(0 <= config.noise < math.inf, config, "noise", "0 or more")
        self.offset = nn.Parameter(torch.tensor(float(config.offset)))
        self.noise = config.noise

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> MonotonicMemory:
        real = encodings.new_ones(encodings.shape[:2], dtype=torch.bool) if pad_mask is None else ~pad_mask
        count = real.long().cumsum(1)
        ends = torch.stack([real & (count == 1), real & (count == count[:, -1:])], -1)
        return MonotonicMemory(share(encodings), share(self.score.precompute(encodings)), pad_mask, ends)

    def _score(self, query: Tensor, memory: MonotonicMemory) -> Tensor:
        return self.score(query, memory.keys) + self.offset

    def initial_state(self, memory: MonotonicMemory) -> MonotonicState:  # type: ignore[override]
        first = in_full(memory.ends[..., 0].to(memory.encodings.dtype))
        return MonotonicState(first.unsqueeze(1), super().initial_state(memory))

    def step(  # type: ignore[override]
        self,
        query: Tensor,
        memory: MonotonicMemory,
        state: Optional[MonotonicState] = None,
        positions: Optional[Tensor] = None,
    ) -> AttentionOutput:
        if state is None:
            raise ValueError(f"{self.name} attention needs the state of the step before")
        scores = self._biased_score(query, memory, state.bias, positions)
        stops = monotonic_step(*self._choices(in_full(scores), memory), state.last)
        weights = self._within(stops, query, memory).type_as(scores)
        new = MonotonicState(stops, super().advance(state.bias, weights))
        return AttentionOutput(matmul(weights, memory.encodings), weights, scores, new)

    def advance(self, state: MonotonicState, weights: Tensor) -> MonotonicState:  # type: ignore[override]
        return MonotonicState(weights.type_as(state.last), super().advance(state.bias, weights))

    def _choices(self, scores: Tensor, memory: MonotonicMemory) -> tuple[Tensor, Tensor]:
        """The probabilities to stop and to go on, or zeros and ones in evaluation."""
        if self.training:
            if self.noise:
                scores = scores + self.noise * torch.randn_like(scores)
            stop, go_on = torch.sigmoid(scores), torch.sigmoid(-scores)
        else:
            stop = (scores > 0).to(scores.dtype)
            go_on = 1 - stop
        if not self.config.lossy:
            last = memory.ends[..., 1].unsqueeze(1)
            stop, go_on = stop.masked_fill(last, 1.0), go_on.masked_fill(last, 0.0)
        if memory.pad_mask is not None:
            mask = memory.pad_mask.unsqueeze(1)
            stop, go_on = stop.masked_fill(mask, 0.0), go_on.masked_fill(mask, 1.0)
        return stop, go_on

    def _within(self, stops: Tensor, query: Tensor, memory: MonotonicMemory) -> Tensor:
        """Weights of a step that stops where ``stops`` says."""
        return stops


@register_attention("mocha")
class MochaAttention(MonotonicAttention):
    """Attends to the words of the chunk that ends where it stops."""

    Config = MochaConfig
    config: MochaConfig
    advance = Attention.advance  # the weights of a chunk do not say where the step stopped

    def __init__(self, query_dim: int, memory_dim: int, config: MochaConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(config.chunk >= 1, config, "chunk", "at least 1 word")
        self.chunk_score = SCORES.build(config.score or self.default_score, query_dim, memory_dim, **config.of_parts)

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> MonotonicMemory:
        memory = super()._memorize(encodings, pad_mask)
        return memory._replace(chunk_keys=share(self.chunk_score.precompute(encodings)))

    def _within(self, stops: Tensor, query: Tensor, memory: MonotonicMemory) -> Tensor:
        energies = in_full(self.chunk_score(query, memory.chunk_keys))
        if memory.pad_mask is not None:
            energies = energies.masked_fill(memory.pad_mask.unsqueeze(1), _NOTHING)
        return chunk_weights(stops, energies, self.config.chunk)
