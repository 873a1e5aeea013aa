"""The environment of the agent of :mod:`.word_table`: where each hop leads, and the exact value of the best policy.

The agent cannot choose where a hop leads. Each start word therefore has one path, and episodes differ only in where
they stop.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from tqdm import tqdm

_ROUNDING = 1e-6  # of a cosine in float32: equal vectors must pass a threshold of 1
_CHUNK = 1 << 22  # cosines in memory at a time


class Neighbours(NamedTuple):
    """The nearest source words of each word by decreasing cosine: ``words`` [V, K], -1 for none, and ``cosines``."""

    words: Tensor
    cosines: Tensor


class Paths(NamedTuple):
    """For each start word the source words that hops lead to, ``words`` [S, H], and the ``cosines`` of the hops.

    After the last hop the word is -1 and the cosine 0.
    """

    words: Tensor
    cosines: Tensor


def nearest(queries: Tensor, source: Tensor, count: int, description: str = "neighbours") -> Neighbours:
    """The ``count`` source words of highest cosine for every query, in chunks: V x V cosines are never in memory.

    Args:
        queries: ``[V, d]``, rows of length one, or zero; zero rows have no neighbours
        source: ``[Vs, d]``, likewise; zero rows are never neighbours
        count: how many, at most
        description: of the progress bar
    """
    candidates = source.ne(0).any(1).nonzero().squeeze(1)
    asking = queries.ne(0).any(1).nonzero().squeeze(1)
    count = min(count, len(candidates))
    words = torch.full((len(queries), count), -1, dtype=torch.long)
    cosines = torch.full((len(queries), count), -1.0)
    if count:
        columns = source[candidates].t()
        size = max(1, _CHUNK // len(candidates))
        for rows in tqdm(asking.split(size), desc=description, unit=" chunks", disable=None, leave=False):
            found = (queries[rows] @ columns).topk(count, dim=1)
            words[rows] = candidates[found.indices]
            cosines[rows] = found.values.clamp(-1, 1)
    return Neighbours(words, cosines)


def paths(start: Neighbours, source: Neighbours, threshold: float, horizon: int) -> Paths:
    """Where the hops from every start word lead: each to the nearest source word that the path has not visited.

    Args:
        start: nearest source words of the words that the agent may start at
        source: those of the source words; ``horizon`` of them suffice, since a path visits at most that many words
            before a hop, the word itself included
        threshold: a hop goes to a word whose cosine is at least this (up to rounding)
        horizon: H, the most hops of an episode
    """
    rows = len(start.words)
    words = torch.full((rows, horizon), -1, dtype=torch.long)
    cosines = torch.zeros(rows, horizon)
    alive = torch.arange(rows)
    near = start
    for step in range(horizon):
        allowed = near.words.ge(0) & near.cosines.ge(threshold - _ROUNDING)
        for before in range(step):
            allowed &= near.words.ne(words[alive, before].unsqueeze(1))
        on = allowed.any(1)
        if not on.any():
            break
        alive = alive[on]
        first = allowed[on].int().argmax(1, keepdim=True)
        here = near.words[on].gather(1, first).squeeze(1)
        words[alive, step] = here
        cosines[alive, step] = near.cosines[on].gather(1, first).squeeze(1)
        near = Neighbours(source.words[here], source.cosines[here])
    return Paths(words, cosines)


def best_values(path: Paths, hop_cost: float) -> Tensor:
    """Exact Q of hopping, ``[S, H]``, by dynamic programming; -inf after the last hop. Stopping has the value 0.

    Q(S_i, hop) = cos(S_i+1, S_i) - C + max(0, Q(S_i+1, hop))
    """
    result = torch.full_like(path.cosines, float("-inf"))
    after = torch.zeros(len(result))
    for step in reversed(range(result.size(1))):
        there = path.words[:, step].ge(0)
        result[there, step] = (path.cosines[:, step] - hop_cost + after)[there]
        after = result[:, step].clamp(min=0)
    return result
