"""Constrained sparsemax (Malaviya, Ferreira and Martins 2018, "Sparse and Constrained Attention for Neural Machine
Translation"): the weights of a source word over time stay below its fertility f_j.

    u_tj = f_j - sum_{i < t} a_ij                                what is left of word j
    a_t  = argmin_p |p - (alpha_t + c u_t)|^2,   sum_j p_j = 1,   0 <= p_j <= u_tj

c, ``--constrained-exhaustion``, draws attention to words with much left. The last word, the end of the sentence, is the
paper's sink: it has no bound (and no c u), so that weights sum to one however long the translation is.

f is ``--constrained-fertility`` for all words, or that times sigmoid(w . h_j + b), trained through the bounds
(``--constrained-predicted``). Checkpoints of earlier versions may have a table with the fertility of each word.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, NamedTuple, Optional

import torch
from torch import Tensor

from ..ops.constrained_sparsemax import constrained_sparsemax
from ..ops.deferred import matmul, share
from ..ops.precision import in_full
from ..options import option
from .base import AttentionConfig, AttentionOutput
from .biases import BiasMemory, BiasState
from .part_registry import need_own
from .registry import register_attention
from .scored import ScoredAttention
from .scores import projection


@dataclass
class ConstrainedConfig(AttentionConfig):
    prefix: ClassVar[str] = "constrained"

    fertility: float = option(3.0, "f, the most weight that a source word has in a translation (default: 3)")
    predicted: bool = option(False, "predict a share of that fertility from each word's encoding")
    exhaustion: float = option(0.2, "c, how much what is left of a word adds to its score (default: 0.2)")


class ConstrainedMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    keys: Tensor  # [B, N, Dk]
    pad_mask: Optional[Tensor]  # [B, N]
    fertility: Tensor  # [B, N], in float32 or better; zero on padding
    sink: Tensor  # [B, N], True on the last word
    bias: Optional[BiasMemory] = None


class ConstrainedState(NamedTuple):
    used: Tensor  # [B, T, N], sum of the weights so far, in float32 or better
    bias: Optional[BiasState]


@register_attention("constrained-sparsemax")
class ConstrainedAttention(ScoredAttention):
    Config = ConstrainedConfig
    takes = frozenset({"bias", "words"})
    sparse = True
    config: ConstrainedConfig
    table: Tensor

    def __init__(self, query_dim: int, memory_dim: int, config: ConstrainedConfig):
        super().__init__(query_dim, memory_dim, config)
        self.recurrent = True
        need_own(0 < config.fertility < math.inf, config, "fertility", "above 0")
        need_own(0 <= config.exhaustion < math.inf, config, "exhaustion", "0 or more")
        self.predicted = projection(memory_dim, 1) if config.predicted else None
        self.register_buffer("table", torch.zeros(0))  # [V], of source words, of an older checkpoint

    def precompute(
        self, encodings: Tensor, pad_mask: Optional[Tensor] = None, source_tokens: Optional[Tensor] = None
    ) -> ConstrainedMemory:
        memory = super().precompute(encodings, pad_mask)
        if not self.table.numel():
            return memory
        if source_tokens is None:
            raise ValueError("constrained sparsemax with a table needs the argument source_tokens")
        fertility = self.table[source_tokens].to(memory.fertility.dtype)
        return memory._replace(fertility=fertility if pad_mask is None else fertility.masked_fill(pad_mask, 0.0))

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> ConstrainedMemory:
        real = encodings.new_ones(encodings.shape[:2], dtype=torch.bool) if pad_mask is None else ~pad_mask
        sink = real & (real.long().flip(1).cumsum(1).flip(1) == 1)
        fertility = torch.full_like(in_full(encodings[..., 0]), self.config.fertility)
        if self.predicted is not None:
            fertility = fertility * torch.sigmoid(in_full(self.predicted(encodings).squeeze(-1)))
        fertility = fertility.masked_fill(~real, 0.0)
        return ConstrainedMemory(share(encodings), share(self.score.precompute(encodings)), pad_mask, fertility, sink)

    def initial_state(self, memory: ConstrainedMemory) -> ConstrainedState:  # type: ignore[override]
        return ConstrainedState(torch.zeros_like(memory.fertility).unsqueeze(1), super().initial_state(memory))

    def step(  # type: ignore[override]
        self,
        query: Tensor,
        memory: ConstrainedMemory,
        state: Optional[ConstrainedState] = None,
        positions: Optional[Tensor] = None,
        inputs: Optional[Tensor] = None,
    ) -> AttentionOutput:
        if state is None:
            raise ValueError("constrained sparsemax needs the state of the step before")
        sink = memory.sink.unsqueeze(1)
        left = (memory.fertility.unsqueeze(1) - state.used).clamp(min=0).masked_fill(sink, 0.0)
        scores = self._biased_score(query, memory, state.bias, positions)
        scores = scores + (self.config.exhaustion * left).type_as(scores)
        known = in_full(scores)
        if memory.pad_mask is not None:
            known = known.masked_fill(memory.pad_mask.unsqueeze(1), 0.0)
        # a bound of one is none
        weights = constrained_sparsemax(known, left.masked_fill(sink, 1.0)).to(left.dtype)
        used, weights = state.used + weights, weights.type_as(scores)
        new = ConstrainedState(used, super().advance(state.bias, weights))
        return AttentionOutput(matmul(weights, memory.encodings), weights, scores, new)

    def advance(self, state: ConstrainedState, weights: Tensor) -> ConstrainedState:  # type: ignore[override]
        return ConstrainedState(state.used + weights, super().advance(state.bias, weights))

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        stored = state_dict.get(prefix + "table")
        if isinstance(stored, Tensor):
            self.table = self.table.new_zeros(stored.shape)  # as long as the checkpoint's
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
