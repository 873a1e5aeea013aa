"""Losses for the disagreement of two attentions, in plain torch.

F [T, N] is the attention of the direction source -> target; row t belongs to the step that predicts target word t.
R [N, T] is the attention of target -> source. The end-of-sentence symbols count as words, so that the last steps of
both directions have to agree as well. The losses of a sentence are

    trace          -tr(F R) = -sum_tj F_tj R_jt. If rows sum to one, the trace is at most min(T, N). For T = N only
                   one-hot attentions that are each other's transposes reach this bound (Cohn et al. 2016, "bilingual
                   symmetry": the trace is added to the two log-likelihoods and not divided by the length)
    log-trace      -log tr(F R)            (Cheng et al. 2016, "Agreement-based Joint Training for Bidirectional
                   Attention-based Neural Machine Translation", "multiplication")
    squared        sum_tj (F_tj - R_jt)^2  (the same paper, "square of subtraction")
    cross-entropy  -sum_t sum_j r_tj log F_tj - sum_j sum_t f_jt log R_jt with r_tj = R_jt / sum_k R_kt and f_jt =
                   F_tj / sum_s F_sj. The target of a word is the column of the other direction's attention,
                   normalised over the words of the other side and detached. A column without weight gives no target.

``trace`` and ``log-trace`` also reward peaked attentions. ``squared`` is zero for all transposes, peaked or not.
"""

from __future__ import annotations

from typing import Callable, Dict, NamedTuple

import torch
from torch import Tensor

__all__ = ["LOSSES", "Attentions", "attentions", "trace", "trace_bound"]

# Lower bound of numbers in a logarithm or a denominator. Its inverse is the steepest slope. That slope times fairseq's
# initial loss scale for half precision (128) must not overflow in float16.
_FLOOR = 1e-6
_FLOOR_HALF = 2.0**-10


class Attentions(NamedTuple):
    """Both attentions of B sentences as target x source matrices, in at least float32; zero on padding."""

    forward: Tensor  # [B, T, N], F
    reverse: Tensor  # [B, T, N], R transposed
    target_words: Tensor  # [B, T], False on padding
    source_words: Tensor  # [B, N]
    floor: float


def attentions(
    forward: Tensor, reverse: Tensor, target_words: Tensor, source_words: Tensor, normalized: bool = True
) -> Attentions:
    """Converts both attentions to target x source matrices.

    Args:
        forward: weights ``[B, T, N]`` of source -> target
        reverse: weights ``[B, N, T]`` of target -> source
        target_words: ``[B, T]``, False on padding
        source_words: ``[B, N]``, False on padding
        normalized: whether the weights of the mechanism sum to one; if not, rows are divided by their sums
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
    """min(T, N) ``[B]``, the maximum of the trace."""
    return torch.minimum(both.target_words.sum(1), both.source_words.sum(1))


def _log_trace(both: Attentions) -> Tensor:
    return -trace(both).clamp(min=both.floor).log()


def _squared(both: Attentions) -> Tensor:
    return (both.forward - both.reverse).square().sum((1, 2))


def _cross_entropy(both: Attentions) -> Tensor:
    def taught(learner: Tensor, teacher: Tensor, dim: int) -> Tensor:
        total = teacher.sum(dim, keepdim=True)
        target = (teacher / total.clamp(min=both.floor)).detach()
        # The floor keeps the loss finite for a weight of 0; the scale keeps it 0 for a weight of 1.
        return -(target * ((learner + both.floor) / (1 + both.floor)).log()).sum((1, 2))

    return taught(both.forward, both.reverse, 2) + taught(both.reverse, both.forward, 1)


LOSSES: Dict[str, Callable[[Attentions], Tensor]] = {
    "trace": lambda both: -trace(both),
    "log-trace": _log_trace,
    "squared": _squared,
    "cross-entropy": _cross_entropy,
}
