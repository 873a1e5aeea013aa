"""The weights of Gaussian attention for all steps of a sentence, as a table that a step looks up.

For step t (from 0) of a sentence with n source positions, p = n - 1 of them words and the last one its end,

    c_t  = min( t / rho, n - 1 )                                 the centre; rho target words go with a source word
    a_tj ~ exp( -(j - c_t - mean)^2 / (2 sigma^2) )              where |j - round(c_t)| <= k(p); elsewhere 0

with sum_j a_tj = 1, or max_j a_tj = 1. After the centre has reached the last position all rows are equal; the table
ends there.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Optional

import torch
from torch import Tensor

from ..ops.devices import constant
from .normalizers import LOG_ZERO, build_normalizer, divide_by_maximum
from .positions import word_positions
from .windows import HALF, Rule

__all__ = ["Curve", "Rows", "rows_of"]

# A Gaussian narrower than this has one position only; its square is a normal number.
_NARROWEST = 1e-6
# Rows of sentences longer than this are not kept: few sentences have the same length.
_LONGEST_KEPT = 128
_softmax = build_normalizer("softmax")


class Curve(NamedTuple):
    """The numbers that the rows depend on, besides the lengths of the sentences."""

    rule: Rule
    ratio: Any  # rho, a number, or a scalar tensor where it is trained
    sigma: Any
    mean: Any
    divided: bool  # by the maximum instead of by the sum

    @classmethod
    def of_tensors(cls, rule: Rule, log_ratio: Tensor, log_sigma: Tensor, mean: Tensor, divided: bool) -> Curve:
        """From the parameters of the mechanism, with gradients."""
        return cls(rule, log_ratio.exp(), log_sigma.exp().clamp(min=_NARROWEST), mean, divided)

    @classmethod
    def of_numbers(cls, rule: Rule, log_ratio: float, log_sigma: float, mean: float, divided: bool) -> Curve:
        """The same of numbers."""
        return cls(rule, math.exp(log_ratio), max(math.exp(log_sigma), _NARROWEST), mean, divided)


class Rows(NamedTuple):
    """The rows of R steps of B sentences, in float32 or better."""

    weights: Tensor  # [B, R, N]
    scores: Tensor  # [B, R, N], logarithms of the Gaussian before it is normalised, LOG_ZERO outside the window
    nearest: Tensor  # [B, R], round(c_t)
    words: Tensor  # [B, N], the number of each word in its sentence


def rows_of(encodings: Tensor, pad_mask: Optional[Tensor], curve: Curve) -> Rows:
    """The rows of a batch of sentences.

    Sentences of one length, such as one alone, have the same rows. They are computed once and kept for further batches,
    unless ``curve`` is trained.

    Args:
        encodings: ``[B, N, Dh]``, for its shape, type and device
        pad_mask: ``[B, N]``, or None
        curve: numbers, or tensors of the type that :func:`word_positions` returns
    """
    batch, size, _ = encodings.shape
    if pad_mask is None and size <= _LONGEST_KEPT and not isinstance(curve.ratio, Tensor):
        dtype = torch.promote_types(encodings.dtype, torch.float32)
        kept = _rows_of_length(size, curve, dtype, encodings.device)
        return Rows(*(part.expand(batch, *part.shape[1:]) for part in kept))
    words, length = word_positions(encodings, pad_mask)
    return _rows(words, length, pad_mask, curve)


def _rows(words: Tensor, length: Tensor, pad_mask: Optional[Tensor], curve: Curve) -> Rows:
    """The rows of sentences with the given positions and lengths, from :func:`word_positions`."""
    width, last = words.size(1), (length - 1).clamp(min=0)
    ratio, sigma = curve.ratio, curve.sigma
    reached = float(ratio.detach() if isinstance(ratio, Tensor) else ratio) * max(width - 1, 0)
    # 1e-6: rounding must not remove the row in which the centre has arrived.
    steps = torch.arange(math.ceil(reached * (1 + 1e-6)) + 1, dtype=words.dtype, device=words.device)
    centre = torch.minimum(steps / ratio, last)
    nearest = torch.floor(centre.detach() + HALF)
    reach = _windows(curve.rule, width, words.dtype, words.device)[last.long()]
    position = words.unsqueeze(1)
    outside = (position - nearest.unsqueeze(-1)).abs() > reach.unsqueeze(-1)
    if pad_mask is not None:
        outside = outside | pad_mask.unsqueeze(1)
    scores = (position - (centre + curve.mean).unsqueeze(-1)).square() * (-0.5 / sigma / sigma)
    weights = _softmax(scores, outside)
    if curve.divided:
        weights = divide_by_maximum(weights)
    # Clamped: half precision cannot hold every number.
    return Rows(weights, scores.masked_fill(outside, LOG_ZERO).clamp(min=LOG_ZERO), nearest, words)


@constant
def _windows(rule: Rule, longest: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.tensor(rule.windows(longest), dtype=dtype, device=device)


@constant
def _rows_of_length(size: int, curve: Curve, dtype: torch.dtype, device: torch.device) -> Rows:
    """The rows of one sentence without padding. The tensors are shared: nobody writes to them."""
    words = torch.arange(size, dtype=dtype, device=device).unsqueeze(0)
    return _rows(words, words.new_full((1, 1), size), None, curve)
