"""Ordinary attention: a score, a normaliser, a weighted sum (Bahdanau et al. 2015; Luong et al. 2015).

a_t = normalise_j( score(s_t, h_j) ),     c_t = sum_j a_tj h_j     (Bahdanau et al., eqs. 6 and 5; Luong et al., eq. 7)

s_t has read y_{t-1}, as in Luong et al.; Bahdanau et al. have s_{t-1} there, and compute s_t from c_t.
"""

from typing import NamedTuple, Optional

from torch import Tensor

from ..ops.deferred import share
from .biases import BiasMemory
from .registry import register_attention
from .scored import ScoredAttention


class SoftMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    keys: Tensor  # [B, N, Dk]
    pad_mask: Optional[Tensor]  # [B, N]
    bias: Optional[BiasMemory] = None


@register_attention("soft")
class SoftAttention(ScoredAttention):
    takes = ScoredAttention.takes | {"documents"}
    scores_are_logits = True

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> SoftMemory:
        return SoftMemory(share(encodings), share(self.score.precompute(encodings)), pad_mask)
