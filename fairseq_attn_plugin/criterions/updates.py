"""What a criterion has to know of the training that it is part of, and fairseq tells only the task.

The trainer calls ``task.begin_epoch(epoch, model)`` when the data are loaded and no batch is yet on its way, and
``task.train_step(..., update_num)`` for every batch. That hands the number of updates on to
``model.set_num_updates``, which stock models do not keep, and not to the criterion.
"""

from __future__ import annotations

import functools
from typing import Any, Callable

__all__ = ["Updates", "call_before"]


def call_before(task: Any, method: str, action: Callable[..., None]) -> None:
    """Lets ``action`` be called, with the same arguments, before every call of this task's ``method``."""
    original = getattr(task, method, None)
    if original is None:
        return

    @functools.wraps(original)
    def both(*args: Any, **kwargs: Any) -> Any:
        action(*args, **kwargs)
        return original(*args, **kwargs)

    setattr(task, method, both)


class Updates:
    """Counts updates as the trainer does: a resumed training goes on where it was, and all parts of an update
    (``--update-freq``) see the same number.

    Attributes:
        number: updates made so far; 0 until training begins
    """

    def __init__(self, task: Any):
        self.number = 0
        call_before(task, "train_step", self._listen)

    def _listen(
        self, sample: Any, model: Any, criterion: Any, optimizer: Any, update_num: int, *args: Any, **kwargs: Any
    ) -> None:
        self.number = update_num
