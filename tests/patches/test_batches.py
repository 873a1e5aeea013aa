"""Every sentence is in a batch."""

import numpy as np
import pytest
from fairseq.data import data_utils

import fairseq_attn_plugin  # noqa: F401


@pytest.mark.parametrize("multiple", [1, 8])
@pytest.mark.parametrize(
    ("count", "limits"), [(40, {"max_tokens": 60}), (1014, {"max_tokens": 900}), (7, {"max_sentences": 5})]
)
@pytest.mark.parametrize("with_sizes", [True, False])
def test_every_index_is_in_one_batch_within_the_limits(count, limits, multiple, with_sizes):
    sizes = np.sort(np.random.RandomState(0).randint(2, 30, count)).astype(np.int64)
    order = np.random.RandomState(1).permutation(count)
    lengths = {int(i): int(n) for i, n in zip(order, sizes)}
    batches = data_utils.batch_by_size(
        order,
        lambda i: lengths[int(i)],
        num_tokens_vec=sizes if with_sizes else None,
        required_batch_size_multiple=multiple,
        **limits,
    )
    assert [int(i) for batch in batches for i in batch] == order.tolist()
    for batch in batches:
        assert len(batch) <= limits.get("max_sentences", len(batch))
        assert len(batch) * max(lengths[int(i)] for i in batch) <= limits.get("max_tokens", float("inf"))
