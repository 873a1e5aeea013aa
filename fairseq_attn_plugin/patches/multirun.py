"""Several trainings in one process: each starts without a best validation score.

``fairseq-hydra-train -m`` with hydra's basic launcher runs the jobs of a sweep one after the other in one process.
Stock fairseq keeps the best score as an attribute of two functions (``save_checkpoint.best`` and
``should_stop_early.best``), where it outlives the training. From the second job on, ``checkpoint_best.pt`` would be
written only if the job beats all earlier jobs, and ``--patience`` would count against their scores. The patch deletes
the scores whenever a trainer is made; a resumed training reads its own from the checkpoint.
"""

import sys
from typing import Any, Callable

from .wrapping import Patch

__all__ = ["PATCH", "forget_best_scores", "stops_early"]


def _start_afresh(start: Callable[..., None]) -> Callable[..., None]:
    def start_afresh(self: Any, *args: Any, **kwargs: Any) -> None:
        forget_best_scores()
        start(self, *args, **kwargs)

    return start_afresh


def forget_best_scores() -> None:
    """Delete the best scores that fairseq keeps as attributes of functions."""
    from fairseq import checkpoint_utils

    for function in (checkpoint_utils.save_checkpoint, stops_early()):
        for attribute in ("best", "num_runs"):
            if hasattr(function, attribute):
                delattr(function, attribute)


def stops_early() -> Any:
    """The function that counts for ``--patience``; ``python -m fairseq_cli.train`` has one of its own."""
    from fairseq_cli import train

    main = sys.modules["__main__"]
    module: Any = main if getattr(main, "__file__", None) == train.__file__ else train
    return module.should_stop_early


PATCH = Patch(
    name="multirun",
    reason="in a sweep, a job's checkpoint_best.pt and --patience depend on the scores of the jobs before it",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq.trainer:Trainer.__init__": _start_afresh},
)
