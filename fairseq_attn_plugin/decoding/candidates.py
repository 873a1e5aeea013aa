"""The best continuations of the hypotheses of a sentence.

Of beam * K sums of log-probabilities the k greatest are wanted. torch.topk reads all of them with comparisons and
branches. On a processor it is faster to find the maxima of blocks first: the k greatest numbers lie in the k blocks
with the greatest maxima, and torch.topk has to look at these only. The result is the same.
"""

from __future__ import annotations

from typing import Optional, Tuple

import torch
from torch import Tensor

__all__ = ["best_continuations"]

FEW = 8192  # up to so many numbers of a sentence, torch.topk alone is as fast
BLOCKS = (40, 64)  # sizes of a block that are tried


def best_continuations(log_probs: Tensor, scores: Optional[Tensor], count: int) -> Tuple[Tensor, Tensor, Tensor]:
    """The ``count`` greatest log_probs + scores of each sentence, the greatest first.

    Args:
        log_probs: ``[B, W, K]``, of the next word, for W hypotheses of each sentence
        scores: ``[B, W]``, of the hypotheses, or None: zero
        count: how many

    Returns:
        their sums, hypotheses (from 0 to W - 1) and words (from 0 to K - 1), ``[B, count]`` each
    """
    sentences, _, words = log_probs.shape
    if log_probs.device.type == "cpu" and log_probs[0].numel() > FEW and words >= BLOCKS[1] * count:
        best, index = _by_blocks(log_probs, scores, count)
    else:
        sums = log_probs if scores is None else log_probs + scores.unsqueeze(2)
        best, index = sums.reshape(sentences, -1).topk(count, dim=1)
    rows = index.div(words, rounding_mode="floor")
    return best, rows, index - rows * words


def _by_blocks(log_probs: Tensor, scores: Optional[Tensor], count: int) -> Tuple[Tensor, Tensor]:
    """The greatest sums and their places in a sentence's W * K; block j of a hypothesis has the words j, j + w, ..."""
    sentences, hypotheses, words = log_probs.shape
    size = min(range(*BLOCKS), key=lambda block: words % block)
    blocks = words // size
    whole = size * blocks
    maxima = log_probs[:, :, :whole].view(sentences, hypotheses, size, blocks).amax(2)
    if scores is not None:
        maxima = maxima + scores.unsqueeze(2)
    _, chosen = maxima.view(sentences, -1).topk(count, dim=1, sorted=False)
    rows = chosen.div(blocks, rounding_mode="floor")
    first = chosen + rows * (words - blocks)  # places of the blocks' first words: row * K + chosen - row * blocks
    places = (first.unsqueeze(2) + torch.arange(0, whole, blocks, device=first.device)).view(sentences, -1)
    if whole < words:  # the words that fill no block
        rest = torch.arange(hypotheses * words, device=first.device).view(hypotheses, words)[:, whole:].reshape(1, -1)
        places = torch.cat([places, rest.expand(sentences, -1)], dim=1)
    sums = log_probs.view(sentences, -1).gather(1, places)
    if scores is not None:
        of_blocks = scores.gather(1, rows).unsqueeze(2).expand(-1, -1, size).reshape(sentences, -1)
        if whole < words:
            of_rest = scores.unsqueeze(2).expand(-1, -1, words - whole).reshape(sentences, -1)
            of_blocks = torch.cat([of_blocks, of_rest], dim=1)
        sums = sums + of_blocks
    best, index = sums.topk(count, dim=1)
    return best, places.gather(1, index)
