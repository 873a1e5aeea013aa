"""Several trainings in one process: each starts with a clean record of its best validation score.

``fairseq-hydra-train -m`` with hydra's basic launcher runs the jobs of a sweep one after the other in one
process. Stock fairseq keeps the best score so far as an attribute of two functions
(``save_checkpoint.best`` and ``should_stop_early.best``), where it outlives the training. From the second
job on, ``checkpoint_best.pt`` would be written only if the job beats all jobs before it, and ``--patience``
would count against their scores.
"""

import functools
from typing import Any


def install() -> None:
    """Forget the record whenever a trainer is made; a resumed training reads its own from the checkpoint."""
    from fairseq import trainer

    start = trainer.Trainer.__init__
    if hasattr(start, "__wrapped__"):
        return

    @functools.wraps(start)
    def start_afresh(self: Any, *args: Any, **kwargs: Any) -> None:
        forget_best_scores()
        start(self, *args, **kwargs)

    trainer.Trainer.__init__ = start_afresh


def forget_best_scores() -> None:
    from fairseq import checkpoint_utils
    from fairseq_cli import train

    for function in (checkpoint_utils.save_checkpoint, train.should_stop_early):
        for attribute in ("best", "num_runs"):
            if hasattr(function, attribute):
                delattr(function, attribute)
