"""Batches that hold every sentence.

fairseq 0.12.3 leaves out the last batch of a data set when its size is no multiple of
``--required-batch-size-multiple``, which is 8 unless said otherwise: ``fairseq-generate`` and ``fairseq-validate``
then pass over up to seven of the longest sentences without a word, and a BLEU score is that of a part of the test set.
:func:`keep_last_batch` puts those sentences back, in training too.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, List

import numpy as np

__all__ = ["keep_last_batch"]


def keep_last_batch() -> None:
    """Replaces ``fairseq.data.data_utils.batch_by_size`` by one that loses nothing; a second call is void."""
    from fairseq.data import data_utils

    if not hasattr(data_utils.batch_by_size, "__wrapped__"):
        data_utils.batch_by_size = _complete(data_utils.batch_by_size)


def _complete(batch_by_size: Callable[..., List[Any]]) -> Callable[..., List[Any]]:
    @functools.wraps(batch_by_size)
    def complete(
        indices: Any,
        num_tokens_fn: Any,
        num_tokens_vec: Any = None,
        max_tokens: Any = None,
        max_sentences: Any = None,
        required_batch_size_multiple: int = 1,
        fixed_shapes: Any = None,
    ) -> List[Any]:
        limits = (max_tokens, max_sentences)
        if not isinstance(indices, np.ndarray):
            indices = np.fromiter(indices, dtype=np.int64, count=-1)
        batches = batch_by_size(
            indices, num_tokens_fn, num_tokens_vec, *limits, required_batch_size_multiple, fixed_shapes
        )
        kept = sum(len(batch) for batch in batches)
        if fixed_shapes is None and kept < len(indices):
            # Batches follow the order of the indices, so that what is missing is their end.
            sizes = None if num_tokens_vec is None else np.asarray(num_tokens_vec)[kept:]
            batches = list(batches) + list(batch_by_size(indices[kept:], num_tokens_fn, sizes, *limits, 1))
        return batches

    return complete
