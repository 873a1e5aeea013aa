"""Ballots: target words are voters, the words of their source sentence are candidates.

After Bal and Sinha, "Modelling Bahdanau attention using election methods aided by Q-learning". Voter t ranks the p
source words by its attention weights. The end of the sentence neither votes nor is a candidate. A rule gives k
(:mod:`fairseq_attn_plugin.attention.windows`), and voter t gets the committee

    W_t = { j : |j - round(c_t)| <= k, 0 <= j < p },    c_t = min(t / rho, p - 1),

where words are counted from 0 and rho is the number of target words per source word. Halves are rounded up, in float64
and as in the attention ``gaussian``: floor(c_t + 0.5 + 1e-3). That attention also attends to the end of the sentence,
position p, and its centre stays there once t / rho exceeds the last word; here the centre stays at the last word.

The satisfaction of a voter with a committee is the value of the committee scoring function of an election rule
(Elkind, Faliszewski, Skowron and Slinko 2017, "Properties of multiwinner voting rules", Social Choice and Welfare 48),
in per cent of the greatest value of a committee of the same size. Let i(j) be the rank of candidate j, 1 the best, and
beta_p(i) = p - i its Borda score:

    k-Borda   sum_{j in W} beta_p(i(j)) / sum_{i = 1..|W|} beta_p(i)
    SNTV      1 if the voter's first choice is in W, else 0
    Bloc      the share of the voter's |W| first choices that are in W

With a single candidate the k-Borda quotient is 0 / 0, and the satisfaction is 100 per cent. Random rankings give a mean
k-Borda satisfaction of (p - 1) / (2 p - |W| - 1), which is at least one half.

A voter with equal weights for several candidates prefers the one nearer to round(c_t), and the left one of two at the
same distance. Softmax weights rarely tie. Sparse weights often tie at zero, and this order then gives the greatest
satisfaction that the weights allow.
"""

from __future__ import annotations

import math
from typing import Dict, NamedTuple

import torch
from torch import Tensor

from fairseq_attn_plugin.attention.windows import HALF

__all__ = ["Ballots", "ballots", "centres", "committee", "rank", "satisfaction"]


class Ballots(NamedTuple):
    """V voters, each with the candidates of its own sentence, in the order of the sentence, from column 0 on."""

    weights: Tensor  # [V, P] in float64, zero in columns without a candidate
    words: Tensor  # [V], candidates p
    centres: Tensor  # [V], round(c_t)


def centres(steps: Tensor, words: Tensor, ratio: float) -> Tensor:
    """round(c_t) of target words number ``steps`` in sentences of ``words`` source words, any shape, integers."""
    return ((steps.double() / ratio).minimum(words.double() - 1) + HALF).floor().long()


def ballots(weights: Tensor, source_words: Tensor, target_words: Tensor, ratio: float) -> Ballots:
    """The ballots of a batch.

    Args:
        weights: ``[B, T, N]``, not negative
        source_words: ``[B, N]``, True on words, False on padding and the end of the sentence, in any order
        target_words: ``[B, T]``, the same of the target
        ratio: target words per source word, rho

    Returns:
        the ballots of all target words, sentence by sentence; sentences without source words are left out
    """
    counts = source_words.sum(1)
    longest = int(counts.max()) if counts.numel() else 0
    # the sort is stable: words come first and keep their order
    columns = source_words.logical_not().byte().sort(dim=1, stable=True)[1][:, :longest]
    compact = weights.double().gather(2, columns.unsqueeze(1).expand(-1, weights.size(1), -1))
    absent = torch.arange(longest, device=weights.device) >= counts.unsqueeze(1)
    compact = compact.masked_fill(absent.unsqueeze(1), 0.0)
    votes = target_words & (counts > 0).unsqueeze(1)
    steps = target_words.cumsum(1) - 1
    words = counts.unsqueeze(1).expand_as(steps)[votes]
    return Ballots(compact[votes], words, centres(steps[votes], words, ratio))


def rank(votes: Ballots) -> Tensor:
    """i(j) ``[V, P]``, 1 for the best candidate; greater than p in columns without a candidate."""
    column = torch.arange(votes.weights.size(1), device=votes.weights.device)
    offset = column - votes.centres.unsqueeze(1)
    nearest = (2 * offset.abs() + (offset > 0)).argsort(1)  # no two are equal
    weights = votes.weights.masked_fill(column >= votes.words.unsqueeze(1), -math.inf)
    best = weights.gather(1, nearest).sort(dim=1, descending=True, stable=True)[1]
    return torch.empty_like(best).scatter_(1, nearest.gather(1, best), (column + 1).expand_as(best))


def committee(votes: Ballots, k: Tensor) -> Tensor:
    """W_t as ``[V, P]``, True on its members; ``k`` is ``[V]``."""
    column = torch.arange(votes.weights.size(1), device=votes.weights.device)
    near = (column - votes.centres.unsqueeze(1)).abs() <= k.unsqueeze(1)
    return near & (column < votes.words.unsqueeze(1))


def satisfaction(ranks: Tensor, members: Tensor, words: Tensor) -> Dict[str, Tensor]:
    """Satisfaction of every voter with its committee, in per cent: ``[V]`` each for ``k-borda``, ``sntv``, ``bloc``.

    ``chance`` is the expected k-Borda satisfaction of a random ranking.

    Args:
        ranks: ``[V, P]`` from :func:`rank`
        members: ``[V, P]``, True on the committee, which has at least one member
        words: ``[V]``, candidates
    """
    size, p = members.sum(1).double(), words.double()
    points = ((p.unsqueeze(1) - ranks) * members).sum(1)
    greatest = size * p - size * (size + 1) / 2
    alone = words == 1
    borda = torch.where(alone, 1.0, points / greatest.masked_fill(alone, 1.0))
    chance = torch.where(alone, 1.0, (p - 1) / (2 * p - size - 1).masked_fill(alone, 1.0))
    first = (members & (ranks == 1)).any(1).double()
    bloc = (members & (ranks <= size.unsqueeze(1))).sum(1) / size
    return {"k-borda": 100 * borda, "sntv": 100 * first, "bloc": 100 * bloc, "chance": 100 * chance}
