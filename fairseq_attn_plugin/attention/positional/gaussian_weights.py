"""The weights of Gaussian attention at given decoder steps.

For step t (from 0) of a sentence with n source positions, p = n - 1 of them words and the last one its end,

    c_t  = min( t / rho, n - 1 )                                 the centre; rho target words go with a source word
    a_tj ~ exp( -(j - c_t - mean)^2 / (2 sigma^2) )              where |j - round(c_t)| <= k(p); elsewhere 0

with sum_j a_tj = 1, or max_j a_tj = 1. After the centre has reached the last position all steps have the same weights.
"""

import math
from typing import Any, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ...ops.devices import constant
from ..base import word_positions
from ..normalizers import LOG_ZERO, NORMALIZERS, divide_by_maximum
from .windows import HALF, RULES, Rule

# A Gaussian narrower than this has one position only; its square is a normal number.
NARROWEST = 1e-6
_MOST_DIGITS = 20  # of a sentence's length, to the base 2
_softmax = NORMALIZERS.build("softmax")


class Curve(NamedTuple):
    """The numbers that the weights depend on, besides the lengths of the sentences."""

    ratio: Any  # rho, a number, or a scalar tensor where it is trained
    sigma: Any
    mean: Any
    divided: bool  # by the maximum instead of by the sum


class Places(NamedTuple):
    """The positions of a batch of B sentences, in float32 or better."""

    words: Tensor  # [B, 1, N], the number of each word in its sentence
    last: Tensor  # [B, 1], the number of the last word
    reach: Tensor  # [B, 1, 1], k: positions on either side of the centre
    padding: Optional[Tensor] = None  # [B, 1, N], True on padding


def places_of(encodings: Tensor, pad_mask: Optional[Tensor], rule: Rule) -> Places:
    """The places of a batch with encodings ``[B, N, Dh]`` and padding ``[B, N]``, or None."""
    words, length = word_positions(encodings, pad_mask)
    last = (length - 1).clamp(min=0)
    padding = None if pad_mask is None else pad_mask.unsqueeze(1)
    return Places(words.unsqueeze(1), last, _reach(rule, last).unsqueeze(-1), padding)


def _reach(rule: Rule, words: Tensor) -> Tensor:
    """k of sentences of so many words, as :meth:`Rule.window`, in the shape of ``words``."""
    if rule.name == "half":
        return torch.floor(words / 2)
    if rule.name not in RULES:
        return (words > 0) * float(rule.name)
    return (words.unsqueeze(-1) >= _powers(int(rule.name[3:]), words.dtype, words.device)).to(words.dtype).sum(-1)


@constant
def _powers(base: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    powers = [float(base**k) for k in range(1, int(_MOST_DIGITS / math.log2(base)) + 1)]
    return torch.tensor(powers, dtype=dtype, device=device)


def steps_of(places: Places, ratio: Any) -> Tensor:
    """The steps ``[1, R]`` from 0 until the centre has arrived at the last position of the longest sentence."""
    reached = float(ratio.detach() if isinstance(ratio, Tensor) else ratio) * max(places.words.size(-1) - 1, 0)
    # 1e-6: rounding must not remove the step in which the centre has arrived.
    count = math.ceil(reached * (1 + 1e-6)) + 1
    return torch.arange(count, dtype=places.last.dtype, device=places.last.device).unsqueeze(0)


def weights_at(steps: Tensor, places: Places, curve: Curve) -> Tuple[Tensor, Tensor, Tensor]:
    """The weights of decoder steps.

    Args:
        steps: ``[B, T]`` or ``[1, T]``, from 0
        places: of the sentences
        curve: numbers, or tensors of the type of ``places``

    Returns:
        weights ``[B, T, N]``; logarithms of the Gaussian before it is normalised ``[B, T, N]``, ``LOG_ZERO`` outside
        the window; round(c_t) ``[B, T, 1]``
    """
    centre = torch.minimum(steps.to(places.last.dtype) / curve.ratio, places.last)
    nearest = torch.floor(centre.detach() + HALF).unsqueeze(-1)
    outside = (places.words - nearest).abs() > places.reach
    if places.padding is not None:
        outside = outside | places.padding
    distance = places.words - (centre + curve.mean).unsqueeze(-1)
    scores = distance.square() * (-0.5 / curve.sigma / curve.sigma)
    weights = _softmax(scores, outside)
    if curve.divided:
        weights = divide_by_maximum(weights)
    # Clamped: half precision cannot hold every number.
    return weights, scores.masked_fill(outside, LOG_ZERO).clamp(min=LOG_ZERO), nearest
