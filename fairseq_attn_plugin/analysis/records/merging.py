"""From attention over subwords to attention over words."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from fairseq_attn_plugin.text.subwords import BPE_MARK, word_of_subword


def merge_attention(
    weights: np.ndarray, source_tokens: Sequence[str], target_tokens: Sequence[str], mark: str = BPE_MARK
) -> np.ndarray:
    """Word-level attention from subword ``weights`` [T, N]: sum over the subwords of a source word, mean
    over those of a target word.  Rows that summed to one still do.

    Positions beyond the tokens given (end of sentence) are cut off, whether rows, columns or both.
    Raises ``ValueError`` if ``weights`` has fewer rows or columns than there are tokens.
    """
    weights = np.asarray(weights, dtype=float)
    rows, columns = len(target_tokens), len(source_tokens)
    if weights.ndim != 2 or weights.shape[0] < rows or weights.shape[1] < columns:
        raise ValueError(f"attention of shape {weights.shape} does not cover {rows} target and {columns} source tokens")
    return merge_weights(
        weights[:rows, :columns], word_of_subword(source_tokens, mark), word_of_subword(target_tokens, mark)
    )


def merge_weights(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """As :func:`merge_attention` where the words [N] and [T] that the columns and rows belong to are known.

    They count up from 0 without gaps. Columns and rows beyond them are cut off.
    """
    to_source = np.zeros((len(source_words), source_words[-1] + 1 if source_words else 0))
    to_source[np.arange(len(source_words)), source_words] = 1
    to_target = np.zeros((target_words[-1] + 1 if target_words else 0, len(target_words)))
    to_target[target_words, np.arange(len(target_words))] = 1
    to_target /= to_target.sum(axis=1, keepdims=True)
    return to_target @ np.asarray(weights, dtype=float)[: len(target_words), : len(source_words)] @ to_source
