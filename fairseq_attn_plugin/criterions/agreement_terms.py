"""How far the attentions of two directions are from agreeing, in plain torch.

F [T, N] is the attention of the direction source -> target, row t that of the step which predicts target word t; R [N,
T] is that of target -> source. The end-of-sentence symbol is a word like the others on both sides: the steps that end
the two translations should agree, too. Losses of one sentence, to be minimised:

    trace          -tr(F R) = -sum_tj F_tj R_jt. Rows that sum to one bound the trace by min(T, N); for T = N
                   only attentions reach it that are one-hot and each other's transposes (Cohn et al. 2016, "bilingual
                   symmetry": the trace of a sentence is added to its two log-likelihoods, not divided by its length)
    log-trace      -log tr(F R)            (Cheng et al. 2016, "Agreement-based Joint Training for Bidirectional
                   Attention-based Neural Machine Translation": their "multiplication")
    squared        sum_tj (F_tj - R_jt)^2  (the same, "square of subtraction")
    cross-entropy  -sum_t sum_j r_tj log F_tj - sum_j sum_t f_jt log R_jt with r_tj = R_jt / sum_k R_kt and f_jt =
                   F_tj / sum_s F_sj: what the other direction says of a word, normalised over the words of the other
                   side, is its target, a constant for the gradient. A word that the other direction passes over has
                   none.

``trace`` and ``log-trace`` also reward peaked attentions; ``squared`` is zero for all transposes, peaked or not.
"""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple

import torch
from torch import Tensor

__all__ = ["LOSSES", "Attentions", "attentions", "trace", "trace_bound"]

# Stands beside numbers that may be zero in a logarithm or a quotient. Its inverse is the steepest slope, and times
# fairseq's scale of half-precision losses (128 at first) must be a number of float16.
_FLOOR = 1e-6
_FLOOR_HALF = 2.0**-10


class Attentions(NamedTuple):
    """Both attentions of B sentences as target by source, in float32 or better; zero on padding of either side."""

    forward: Tensor  # [B, T, N], F
    reverse: Tensor  # [B, T, N], R transposed
    target_words: Tensor  # [B, T], False on padding
    source_words: Tensor  # [B, N]
    floor: float


def attentions(
    forward: Tensor, reverse: Tensor, target_words: Tensor, source_words: Tensor, normalized: bool = True
) -> Attentions:
    """Brings both into one shape.

    Args:
        forward: weights ``[B, T, N]`` of source -> target
        reverse: weights ``[B, N, T]`` of target -> source
        target_words: ``[B, T]``, False on padding
        source_words: ``[B, N]``, False on padding
        normalized: whether the mechanism's weights sum to one; others are divided by their sums
    """
    half = forward.dtype == torch.float16
    floor = _FLOOR_HALF if half else _FLOOR

    def rows(weights: Tensor, words: Tensor) -> Tensor:
        if weights.dtype in (torch.float16, torch.bfloat16):
            weights = weights.float()
        if not normalized:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=floor)
        return weights.masked_fill(~words.unsqueeze(-1), 0.0)

    return Attentions(
        rows(forward, target_words),
        rows(reverse, source_words).transpose(1, 2),
        target_words,
        source_words,
        floor,
    )


def trace(both: Attentions) -> Tensor:
    """tr(F R) ``[B]``."""
    return (both.forward * both.reverse).sum((1, 2))


def trace_bound(both: Attentions) -> Tensor:
    """min(T, N) ``[B]``, the greatest trace."""
    return torch.minimum(both.target_words.sum(1), both.source_words.sum(1))


def _log_trace(both: Attentions) -> Tensor:
    return -trace(both).clamp(min=both.floor).log()


def _squared(both: Attentions) -> Tensor:
    return (both.forward - both.reverse).square().sum((1, 2))


def _cross_entropy(both: Attentions) -> Tensor:
    def taught(learner: Tensor, teacher: Tensor, dim: int) -> Tensor:
        total = teacher.sum(dim, keepdim=True)
        target = (teacher / total.clamp(min=both.floor)).detach()
        # Finite where the weight is zero, and zero where it is one.
        return -(target * ((learner + both.floor) / (1 + both.floor)).log()).sum((1, 2))

    return taught(both.forward, both.reverse, 2) + taught(both.reverse, both.forward, 1)


LOSSES: Dict[str, Callable[[Attentions], Tensor]] = {
    "trace": lambda both: -trace(both),
    "log-trace": _log_trace,
    "squared": _squared,
    "cross-entropy": _cross_entropy,
}
