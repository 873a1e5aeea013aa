"""Structured and sigmoid attention (Kim, Denton, Hoang and Rush 2017, "Structured Attention Networks").

Every source position has its own binary variable z_j, whether the decoder attends there. (In soft attention all
positions share one categorical variable.)

    structured  z is a linear-chain CRF whose unary potentials are the scores and whose transition potentials
                t[from, to] are trained, so that neighbours may be attended together; the weights are lambda p(z_j = 1)
                normalised over the source
    sigmoid     the z_j are independent: a_j = sigmoid(score_j), not normalised

lambda is ``--structured-scale``; with lambda = 1 the weights are a distribution.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Dict, Optional

import torch
from torch import Tensor, nn

from ..ops.chain_crf import chain_log_marginals
from ..ops.precision import in_full
from ..options import option
from .base import AttentionConfig, Penalty
from .part_registry import need_own
from .registry import register_attention
from .scored import position_mask
from .soft import SoftAttention, SoftMemory


@dataclass
class StructuredConfig(AttentionConfig):
    prefix: ClassVar[str] = "structured"

    scale: float = option(
        2.0,
        "lambda, the sum of structured attention's weights, unless --attention-max-normalize divides them (default: 2, "
        "as in the paper)",
    )
    zero_init: bool = option(False, "start the transition potentials from zero, which is no coupling of neighbours")
    l2: float = option(
        0.005,
        "factor of the squared transition potentials, halved, in the loss per word, or per sentence with "
        "--sentence-avg (default: 0.005)",
    )


@register_attention("structured")
class StructuredAttention(SoftAttention):
    """Marginals of a chain over the source; see the module's text and :mod:`fairseq_attn_plugin.ops.chain_crf`."""

    Config = StructuredConfig
    takes = SoftAttention.takes - {"normalizer"}
    to_normalize = "with --structured-scale 1 they do"
    scores_are_logits = False
    config: StructuredConfig

    def __init__(self, query_dim: int, memory_dim: int, config: StructuredConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(0 < config.scale < math.inf, config, "scale", "above 0")
        need_own(0 <= config.l2 < math.inf, config, "l2", "0 or more")
        drawn = torch.empty(2, 2).uniform_(-0.1, 0.1)  # in any case, so that the rest is drawn as without the option
        self.transitions = nn.Parameter(torch.zeros_like(drawn) if config.zero_init else drawn)
        self.normalized = config.scale == 1.0 and not config.max_normalize

    def _weigh(self, scores: Tensor, query: Tensor, memory: SoftMemory, positions: Optional[Tensor]) -> Tensor:
        mask = position_mask(memory.pad_mask)
        # p_j / sum_k p_k as a softmax of logarithms stays exact where all marginals underflow.
        weights = self.normalize(chain_log_marginals(scores, self.transitions, mask), mask)
        return (self.config.scale * weights).type_as(scores)

    def parameter_penalties(self) -> Dict[str, Penalty]:
        return {"transition_penalty": Penalty(0.5 * in_full(self.transitions).square().sum(), self.config.l2)}


@register_attention("sigmoid")
class SigmoidAttention(SoftAttention):
    """a_j = sigmoid(score_j)."""

    takes = SoftAttention.takes - {"normalizer"}
    normalized = False
    scores_are_logits = False

    def _weigh(self, scores: Tensor, query: Tensor, memory: SoftMemory, positions: Optional[Tensor]) -> Tensor:
        weights = torch.sigmoid(scores)
        return weights if memory.pad_mask is None else weights.masked_fill(memory.pad_mask.unsqueeze(1), 0.0)
