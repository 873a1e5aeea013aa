"""Batches that hold every sentence.

fairseq 0.12.3 drops the last batch of a data set if its size is not a multiple of ``--required-batch-size-multiple``
(default: 8). ``fairseq-generate`` and ``fairseq-validate`` then skip up to seven of the longest sentences without a
message, and the BLEU score is that of a part of the test set. The patch puts those sentences back, in training too.
"""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np

from .wrapping import Patch

__all__ = ["PATCH"]


def _complete(batch_by_size: Callable[..., List[Any]]) -> Callable[..., List[Any]]:
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
            # batches follow the order of the indices: the missing ones are the last
            sizes = None if num_tokens_vec is None else np.asarray(num_tokens_vec)[kept:]
            batches = list(batches) + list(batch_by_size(indices[kept:], num_tokens_fn, sizes, *limits, 1))
        return batches

    return complete


PATCH = Patch(
    name="batches",
    reason="fairseq-generate and fairseq-validate skip up to seven of the longest sentences",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.data.data_utils:batch_by_size": _complete},
)
