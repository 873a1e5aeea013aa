"""The best continuations of the hypotheses of a sentence.

Of beam * K sums of log-probabilities the k greatest are wanted. torch.topk reads all of them with comparisons and
branches. On a processor it is faster to find the maxima of blocks first: the k greatest numbers lie in the k blocks
with the greatest maxima, and torch.topk has to look at these only. The result is the same.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Optional, Tuple

import torch
from torch import Tensor

__all__ = ["best_continuations"]

SIZE = 16  # words of a block


def best_continuations(log_probs: Tensor, scores: Optional[Tensor], count: int) -> Tuple[Tensor, Tensor, Tensor]:
    """The ``count`` greatest log_probs + scores of each sentence, the greatest first.

    Args:
        log_probs: ``[B, W, K]``, of the next word, for W hypotheses of each sentence
        scores: ``[B, W]``, of the hypotheses, or None: zero
        count: how many

    Returns:
        their sums, hypotheses (from 0 to W - 1) and words (from 0 to K - 1), ``[B, count]`` each
    """
    sentences, hypotheses, words = log_probs.shape
    # worth its many small steps where there is much to read
    many = hypotheses * words >= (32768 if sentences == 1 else 1024) and words >= 2 * count * SIZE
    if many and log_probs.device.type == "cpu":
        best, index = _by_blocks(log_probs, scores, count)
    else:
        sums = log_probs if scores is None else log_probs + scores.unsqueeze(2)
        best, index = sums.reshape(sentences, -1).topk(count, dim=1)
    rows = index.div(words, rounding_mode="floor")
    return best, rows, index - rows * words


@lru_cache
def _places(hypotheses: int, words: int) -> Tensor:
    """The places of each block's words among a sentence's W * K, ``[blocks, SIZE]``; where it has fewer words,
    negative numbers."""
    blocks = words // SIZE
    places = torch.full((blocks + words % SIZE, SIZE), -hypotheses * words)
    places[:blocks] = torch.arange(blocks * SIZE).view(SIZE, blocks).t()
    places[blocks:, 0] = torch.arange(blocks * SIZE, words)
    return (torch.arange(hypotheses).view(-1, 1, 1) * words + places).view(-1, SIZE)


def _by_blocks(log_probs: Tensor, scores: Optional[Tensor], count: int) -> Tuple[Tensor, Tensor]:
    """The greatest sums and their places among a sentence's W * K.

    Block j of a hypothesis has the words j, j + w, j + 2 w, ..., less than ``SIZE`` w, for w = K // ``SIZE``. Each of
    the remaining words is a block.
    """
    sentences, hypotheses, words = log_probs.shape
    even = words - words % SIZE
    maxima = log_probs[:, :, :even].view(sentences, hypotheses, SIZE, -1).amax(2)
    if even < words:
        maxima = torch.cat([maxima, log_probs[:, :, even:]], 2)
    blocks = maxima.size(2)
    if scores is not None:
        maxima = maxima.add_(scores.unsqueeze(2))
    _, chosen = maxima.view(sentences, -1).topk(count, dim=1, sorted=False)
    places = _places(hypotheses, words).index_select(0, chosen.view(-1)).view(sentences, -1)
    sums = log_probs.view(sentences, -1).gather(1, places.clamp(min=0))
    if even < words:
        sums = sums.masked_fill_(places < 0, -math.inf)
    if scores is not None:
        past = scores.gather(1, chosen.div(blocks, rounding_mode="floor"))
        sums = (sums.view(sentences, count, SIZE) + past.unsqueeze(2)).view(sentences, -1)
    best, index = sums.topk(count, dim=1)
    # Where fewer than ``count`` sums are finite, places without a word (of score -inf) are among the chosen.
    return best, places.gather(1, index).clamp(min=0)
