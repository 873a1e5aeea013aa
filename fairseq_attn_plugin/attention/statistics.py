"""What validation logs of every attention mechanism, beside the loss: how sharp the attention is, and whether it moves.

For weights a_tj of T steps to n source positions let p_tj = a_tj / sum_k a_tk, H Shannon's entropy, and p the mean of
p_t over the steps of a sentence. A step without weights attends to nothing and adds nothing to the sums.

    entropy      1/T sum_t H(p_t) / log n              1: all positions alike; 0: one position
    information  (H(p) - 1/T sum_t H(p_t)) / log n     0: every step attends alike, sharply or not; 1: each to another
                                                       position, and all positions in equal parts

The second is the mutual information of a step and the position that it attends to. A model that always attends to the
end of the sentence has both near 0: it uses the attention as another summary of the sentence, and aligns nothing.
"""

from typing import Dict, Optional

import torch
from torch import Tensor

from ..ops.precision import in_full
from .base import Penalty


@torch.no_grad()
def attention_statistics(
    weights: Tensor, pad_mask: Optional[Tensor] = None, step_mask: Optional[Tensor] = None
) -> Dict[str, Penalty]:
    """Entropy and information of whole sentences (see the module's text), in float32 or better, summed over steps.

    Both lie between 0 and 1 for each step; a source of one position has 0.

    Args:
        weights: ``[B, T, N]``, of all steps, zero on padding
        pad_mask: ``[B, N]``, True on padding
        step_mask: ``[B, T]``, True on steps beyond a sentence's end
    """
    weights = in_full(weights)
    shares = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    if step_mask is not None:
        shares = shares.masked_fill(step_mask.unsqueeze(-1), 0.0)
    attending = shares.sum(-1).gt(0).sum(1).to(weights.dtype)  # steps
    words = attending.new_full((len(weights),), weights.size(-1)) if pad_mask is None else (~pad_mask).sum(1)
    most = words.clamp(min=2).to(weights.dtype).log()
    entropy = _entropy(shares).sum(1) / most
    mean = shares.sum(1) / attending.clamp(min=1).unsqueeze(1)
    information = (attending * _entropy(mean) / most - entropy).clamp(min=0)  # rounding
    return {
        "attention_entropy_statistic": Penalty(entropy.sum(), 0.0),
        "attention_information_statistic": Penalty(information.sum(), 0.0),
    }


def _entropy(shares: Tensor) -> Tensor:
    return -torch.special.xlogy(shares, shares).sum(-1)
