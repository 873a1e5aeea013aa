"""Offsets as candidates: how far from its own position a target word attends.

The offsets o = j - round(c_t) stand for election over all voters (:mod:`.ballots`). Each has first choices, Borda
points beta_p(i) / (p - 1) (1 for the only candidate), and mass: the weight of the word as a share of the weights of all
words of its sentence. A voter gives nothing to an offset outside its sentence.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple

import torch
from torch import Tensor

__all__ = ["Gaussian", "Offsets", "SIGMA_FLOOR", "discretized", "elected", "fit_gaussian"]


SIGMA_FLOOR = 0.1  # the weight of a neighbour is then exp(-50) times that of the centre: practically zero


class Offsets(NamedTuple):
    """The votes for the candidates o = offset[0], offset[0] + 1, ...

    ``first_choices``, ``borda``, ``mass`` and ``inside`` are means over all voters, including voters without such a
    word, and lie between 0 and 1.
    """

    offset: Tensor
    voters: Tensor  # voters whose sentence has such a word
    first_choices: Tensor
    borda: Tensor
    mass: Tensor
    inside: Dict[str, Tensor]  # by rule: the mass that is inside its windows


class Gaussian(NamedTuple):
    mean: float
    sigma: float
    distance: float  # total variation between it and the votes, 0 to 1


def elected(offsets: Offsets, seats: int) -> List[int]:
    """The k-Borda committee of offsets: the ``seats`` with most Borda points, in ascending order.

    A tie goes to the offset nearer to 0, and to the left one of two at the same distance. With fewer candidates there
    are fewer seats.
    """
    candidates = zip(offsets.offset.tolist(), offsets.borda.tolist(), offsets.voters.tolist())
    order = sorted((-points, abs(offset), offset) for offset, points, voters in candidates if voters)
    return sorted(offset for _, _, offset in order[:seats])


def discretized(offset: Tensor, mean: float, sigma: float) -> Tensor:
    """exp(-(o - mean)^2 / (2 sigma^2)) at the integers ``offset``, divided by its sum."""
    return torch.softmax(-0.5 * ((offset.double() - mean) / sigma).square(), -1)


def fit_gaussian(offset: Tensor, mass: Tensor) -> Gaussian:
    """The Gaussian whose first two moments are those of the mass of the offsets:

        mean = sum_o m_o o,    sigma^2 = sum_o m_o (o - mean)^2,    m divided by its sum,

    but sigma is at least ``SIGMA_FLOOR``: a teacher that always looks at one offset has no spread. ``distance`` is
    1/2 sum_o |m_o - g_o|, where g is the Gaussian at these offsets, divided by its sum. Without any mass the mean is 0.

    Tails outside a window change the moments much: fit the mass inside the windows to get a mask for these windows,
    and the mass of all offsets to see how far attention reaches.
    """
    share = mass.double() / mass.double().sum().clamp_min(1e-300)
    mean = float((share * offset).sum())
    sigma = max(float((share * (offset - mean).square()).sum().sqrt()), SIGMA_FLOOR)
    return Gaussian(mean, sigma, 0.5 * float((share - discretized(offset, mean, sigma)).abs().sum()))
