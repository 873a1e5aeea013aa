"""Coverage attention (See, Liu and Manning 2017, "Get To The Point", equations 10 to 13).

    a_tj = softmax_j( u . tanh(W s_t + V h_j + w_c c_tj + b) ),   c_tj = sum_{i < t} a_ij

The loss has the further term lambda sum_tj min(a_tj, c_tj), which is large where a word is attended to twice.

fairseq-train DATA --user-dir docs/examples/coverage_attention --arch lstm_soft --attention coverage
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, NamedTuple, Optional

import torch
from torch import Tensor, nn

from fairseq_attn_plugin.attention import AttentionConfig, Penalty, ScoredAttention, register_attention
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import option


@dataclass
class CoverageConfig(AttentionConfig):
    prefix: ClassVar[str] = "coverage"
    weight: float = option(1.0, "lambda, the factor of the coverage loss (default: 1)")  # becomes --coverage-weight


class CoverageMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    keys: Tensor  # [B, N, Dk], V h_j + b
    pad_mask: Optional[Tensor]  # [B, N], True on padding
    bias: Any = None  # of --attention-bias


class CoverageState(NamedTuple):
    coverage: Tensor  # [B, 1, N], c_t
    bias: Any  # of --attention-bias


@register_attention("coverage")
class CoverageAttention(ScoredAttention):
    Config = CoverageConfig
    default_score = "additive"
    recurrent = True

    def __init__(self, query_dim: int, memory_dim: int, config: CoverageConfig):
        super().__init__(query_dim, memory_dim, config)
        if self.score.name != "additive":
            raise OptionError(f"--attention-score {self.score.name}: must be additive with coverage attention")
        self.of_coverage = nn.Parameter(torch.zeros_like(self.score.vector))  # w_c

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> CoverageMemory:
        return CoverageMemory(encodings, self.score.precompute(encodings), pad_mask)

    def initial_state(self, memory: CoverageMemory) -> CoverageState:
        nothing = torch.zeros_like(memory.encodings[..., 0]).unsqueeze(1)
        return CoverageState(nothing, super().initial_state(memory))

    def _biased_score(self, query: Tensor, memory: CoverageMemory, state: CoverageState, positions: Tensor) -> Tensor:
        keys = memory.keys.unsqueeze(1) + state.coverage.unsqueeze(-1) * self.of_coverage
        scores = torch.tanh(self.score.query_projection(query).unsqueeze(2) + keys) @ self.score.vector
        return scores if self.biases is None else scores + self.biases(query, memory.bias, state.bias, positions)

    def advance(self, state: CoverageState, weights: Tensor) -> CoverageState:
        return CoverageState(state.coverage + weights, super().advance(state.bias, weights))

    def penalties(
        self, memory: CoverageMemory, weights: Tensor, step_mask: Optional[Tensor] = None
    ) -> Dict[str, Penalty]:
        if step_mask is not None:
            weights = weights.masked_fill(step_mask.unsqueeze(-1), 0.0)
        loss = torch.minimum(weights, weights.cumsum(1) - weights).sum()
        others = super().penalties(memory, weights, step_mask)
        return {**others, "coverage_penalty": Penalty(loss, self.config.weight)}
