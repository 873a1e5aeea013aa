"""Losses for the distance of an attention from word alignments, in plain torch.

Let a_tj be the attention of target word t, divided by its sum over the source. Let g_tj be 1 / n_t if t is linked to j,
where n_t is the number of links of t, and 0 otherwise. The loss of a word is

    cross-entropy   D = -sum_j g_tj log a_tj
    squared         D = 1/2 sum_j (a_tj - g_tj)^2

(Liu et al. 2016, "Neural Machine Translation with Supervised Attention"). Below a = 1e-6 (2^-8 in float16) the tangent
replaces log a, so that loss and gradient are finite where a weight is zero: a word whose only link has the weight zero
costs -log(1e-6) + 1 = 14.8 nats. An exact zero of a sparse normaliser gives its score no gradient; ``squared`` still
has one for the positive weights of the same row.
"""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

__all__ = ["LOSSES", "Alignment", "alignment_terms", "links_matrix"]

LOSSES = ("cross-entropy", "squared")
# Below this the tangent replaces log a. Its slope 1/a times fairseq's initial loss scale for half precision (128) must
# not overflow in float16.
_STRAIGHT = 1e-6
_STRAIGHT_HALF = 2.0**-8


class Alignment(NamedTuple):
    """The attention of a batch compared with its word alignments."""

    losses: Tensor  # [B, T], D of the module's docstring; zero for words without links
    aligned: Tensor  # [B, T], whether a word has links
    correct: Tensor  # [B, T], whether the largest weight of a word is on one of its links


def links_matrix(links: Optional[Tensor], like: Tensor) -> Tensor:
    """The links of a batch as a matrix.

    Args:
        links: ``[L, 2]`` in fairseq's format: column j of the padded source, and b * T + t for word t of sentence b;
            None if no sentence has links
        like: attention ``[B, T, N]``

    Returns:
        ``[B, T, N]``, True on links
    """
    batch, steps, width = like.shape
    matrix = torch.zeros(batch * steps, width, dtype=torch.bool, device=like.device)
    if links is not None and len(links):
        matrix[links[:, 1], links[:, 0]] = True
    return matrix.view(batch, steps, width)


def alignment_terms(weights: Tensor, links: Tensor, loss: str = "cross-entropy") -> Alignment:
    """D(g, a) of every target word, by the formulas of the module's docstring.

    Args:
        weights: attention ``[B, T, N]``, non-negative, zero on padding; rows do not have to sum to one
        links: ``[B, T, N]``, True on links
        loss: ``cross-entropy`` or ``squared``

    Returns:
        the comparison; its losses are in at least float32
    """
    half = weights.dtype == torch.float16
    straight = _STRAIGHT_HALF if half else _STRAIGHT
    full = weights.float() if half or weights.dtype == torch.bfloat16 else weights
    # The rows of a mechanism without normalisation may be nearly zero.
    a = full / full.sum(-1, keepdim=True).clamp(min=straight)
    count = links.sum(-1, keepdim=True)
    gold = links.to(a.dtype) / count.clamp(min=1)
    aligned = count.squeeze(-1) > 0
    if loss == "squared":
        losses = 0.5 * ((a - gold) ** 2).sum(-1) * aligned
    else:
        losses = -(gold * _log(a, straight)).sum(-1)
    with torch.no_grad():
        correct = links.gather(-1, a.argmax(-1, keepdim=True)).squeeze(-1)
    return Alignment(losses, aligned, correct)


def _log(x: Tensor, straight: float) -> Tensor:
    """log x; below ``straight`` its tangent at that point. Value and slope are continuous, and finite at zero."""
    above = x.clamp(min=straight)
    return above.log() + (x - above) / straight
