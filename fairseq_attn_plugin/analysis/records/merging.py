"""Converts attention over subwords into attention over words.

An attention matrix is ``[T, N]``: one row for each target position, one column for each source position.
"""

from __future__ import annotations

from typing import Sequence

import numpy as np

from fairseq_attn_plugin.text.subwords import BPE_MARK, word_of_subword


def merge_attention(
    weights: np.ndarray, source_tokens: Sequence[str], target_tokens: Sequence[str], mark: str = BPE_MARK
) -> np.ndarray:
    """Attention over words, computed from attention over BPE subwords.

    A weight of two words is the sum over the subwords of the source word and the mean over those of the target word. A
    row that sums to one still sums to one.

    Args:
        weights: ``[T, N]``; rows and columns beyond the tokens, such as those of the sentence ends, are dropped
        source_tokens: N subwords or fewer
        target_tokens: T subwords or fewer
        mark: ends every subword except the last one of its word

    Raises:
        ValueError: ``weights`` has fewer rows or columns than there are tokens
    """
    weights = np.asarray(weights, dtype=float)
    rows, columns = len(target_tokens), len(source_tokens)
    if weights.ndim != 2 or weights.shape[0] < rows or weights.shape[1] < columns:
        raise ValueError(f"attention of shape {weights.shape} does not cover {rows} target and {columns} source tokens")
    return merge_weights(
        weights[:rows, :columns], word_of_subword(source_tokens, mark), word_of_subword(target_tokens, mark)
    )


def merge_weights(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """The same as :func:`merge_attention`, given the word index of each column [N] and of each row [T].

    Word indices count up from 0 without gaps. Rows and columns beyond them are dropped.
    """
    to_source = np.zeros((len(source_words), source_words[-1] + 1 if source_words else 0))
    to_source[np.arange(len(source_words)), source_words] = 1
    to_target = np.zeros((target_words[-1] + 1 if target_words else 0, len(target_words)))
    to_target[target_words, np.arange(len(target_words))] = 1
    to_target /= to_target.sum(axis=1, keepdims=True)
    return to_target @ np.asarray(weights, dtype=float)[: len(target_words), : len(source_words)] @ to_source
