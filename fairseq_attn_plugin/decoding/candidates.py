"""The best continuations of the hypotheses of a sentence.

Of beam * K sums of log-probabilities the k greatest are wanted. torch.topk reads all of them with comparisons and
branches. On a processor it is faster to find the maxima of blocks first: the k greatest numbers lie in the k blocks
with the greatest maxima, and torch.topk has to look at these only. The result is the same.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Optional, Tuple

import torch
from torch import Tensor

__all__ = ["best_continuations"]

LARGEST = 16  # words of a block
SMALLEST = 8  # fairseq's vocabularies are multiples of it


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
    size = _block_size(words)
    # worth its many small steps where there is much to read
    many = hypotheses * words >= (16384 if sentences == 1 else 1024) and words >= 2 * count * SMALLEST
    if size and many and log_probs.device.type == "cpu":
        best, index = _by_blocks(log_probs, scores, count, size)
    else:
        sums = log_probs if scores is None else log_probs + scores.unsqueeze(2)
        best, index = sums.reshape(sentences, -1).topk(count, dim=1)
    rows = index.div(words, rounding_mode="floor")
    return best, rows, index - rows * words


@lru_cache
def _block_size(words: int) -> int:
    """The size of equal blocks of the words, 0 if there is none."""
    return max((size for size in range(SMALLEST, LARGEST + 1) if words % size == 0), default=0)


@lru_cache
def _places(hypotheses: int, words: int, size: int) -> Tensor:
    """The places of the words of each block among a sentence's W * K, ``[W * K / size, size]``."""
    blocks = words // size
    places = torch.arange(hypotheses * words).view(hypotheses, size, blocks)
    return places.transpose(1, 2).reshape(-1, size)


def _by_blocks(log_probs: Tensor, scores: Optional[Tensor], count: int, size: int) -> Tuple[Tensor, Tensor]:
    """The greatest sums and their places among a sentence's W * K.

    Block j of a hypothesis has the words j, j + w, j + 2 w, ... for w = K / ``size``.
    """
    sentences, hypotheses, words = log_probs.shape
    blocks = words // size
    maxima = log_probs.view(sentences, hypotheses, size, blocks).amax(2)
    if scores is not None:
        maxima = maxima + scores.unsqueeze(2)
    _, chosen = maxima.view(sentences, -1).topk(count, dim=1, sorted=False)
    places = _places(hypotheses, words, size).index_select(0, chosen.view(-1)).view(sentences, -1)
    sums = log_probs.view(sentences, -1).gather(1, places)
    if scores is not None:
        past = scores.gather(1, chosen.div(blocks, rounding_mode="floor"))
        sums = (sums.view(sentences, count, size) + past.unsqueeze(2)).view(sentences, -1)
    best, index = sums.topk(count, dim=1)
    return best, places.gather(1, index)
