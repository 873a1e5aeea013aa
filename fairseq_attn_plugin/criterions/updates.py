"""Tells a criterion the number of updates, which fairseq passes only to the task.

The trainer calls ``task.begin_epoch(epoch, model)`` after loading the data and before the first batch, and
``task.train_step(..., update_num)`` for every batch. ``train_step`` passes the number to ``model.set_num_updates``,
which stock models do not store, and not to the criterion.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

__all__ = ["Updates", "call_before"]


def call_before(task: Any, method: str, action: Callable[..., None]) -> None:
    """Wraps ``method`` of this task, so that every call first calls ``action`` with the same arguments."""
    original = getattr(task, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def both(*args: Any, **kwargs: Any) -> Any:
        action(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(task, method, both)


class Updates:
    """The trainer's number of updates. A resumed training continues it, and all batches of one update
    (``--update-freq``) see the same number.

    Attributes:
        number: number of updates so far; 0 before training
    """

    def __init__(self, task: Any):
        self.number = 0
        call_before(task, "train_step", self._listen)

    def _listen(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, *args: Any, **kwargs: Any
    ) -> None:
        self.number = update_num
