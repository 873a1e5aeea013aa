"""``--num-batch-buckets`` with numpy 2.

fairseq 0.12.3 asks numpy for the type ``numpy.compat.long`` and for percentiles by the argument ``interpolation``.
numpy 2 has neither any more, and a training with buckets stopped with an AttributeError.
"""

from types import ModuleType, SimpleNamespace
from typing import Any, Callable

import numpy as np

from .wrapping import Patch

__all__ = ["PATCH"]


class _Numpy(ModuleType):
    """numpy, with the type of whole numbers by its old name."""

    compat = SimpleNamespace(long=np.int64)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def _percentiles(_get_buckets: Callable[..., Any]) -> Callable[..., Any]:
    def get_buckets(sizes: Any, num_buckets: int) -> Any:
        return np.unique(np.percentile(sizes, np.linspace(0, 100, num_buckets + 1), method="lower")[1:])

    return get_buckets


def _name_types() -> None:
    from fairseq.data import language_pair_dataset, token_block_dataset

    for module in (language_pair_dataset, token_block_dataset):
        if not hasattr(module.np, "compat"):
            module.np = _Numpy("numpy")


PATCH = Patch(
    name="buckets",
    reason="--num-batch-buckets stops with numpy 2",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.data.bucket_pad_length_dataset:get_buckets": _percentiles},
    extra=_name_types,
    needed=lambda: not hasattr(np, "compat"),
)
