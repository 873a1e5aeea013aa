"""``--patience`` counts on when a training is resumed.

Stock fairseq keeps the number of validations without an improvement, and the best score that it compares with, as
attributes of ``should_stop_early``, and not in the checkpoint. A resumed training starts to count at zero, takes its
first validation for the best one, and trains longer than an uninterrupted one would. The patch stores both in the
checkpoint, and sets them from the checkpoint of a resumed training. The best score is not ``save_checkpoint.best``,
which changes only with those validations after which a checkpoint is saved.
"""

from typing import Any, Callable, Dict

from .multirun import stops_early
from .wrapping import Patch

__all__ = ["PATCH"]

COUNT, BEST = "validations_without_improvement", "best_of_patience"


def _with_count(save: Callable[..., Any]) -> Callable[..., Any]:
    def save_checkpoint(self: Any, filename: str, extra_state: Dict[str, Any]) -> Any:
        counter = stops_early()
        kept = {COUNT: getattr(counter, "num_runs", 0)}
        if hasattr(counter, "best"):
            kept[BEST] = counter.best
        return save(self, filename, {**extra_state, **kept})

    return save_checkpoint


def _counting_on(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_checkpoint(cfg: Any, trainer: Any, **options: Any) -> Any:
        from fairseq import checkpoint_utils

        extra_state, iterator = load(cfg, trainer, **options)
        # fairseq sets it if the training is resumed: not with --reset-meters, nor at the start of a fine-tuning
        best = getattr(checkpoint_utils.save_checkpoint, "best", None)
        if cfg.patience > 0 and extra_state is not None and best is not None:
            counter = stops_early()
            counter.best, counter.num_runs = extra_state.get(BEST, best), extra_state.get(COUNT, 0)
        return extra_state, iterator

    return load_checkpoint


PATCH = Patch(
    name="patience",
    reason="a resumed training forgets how long --patience has lasted, and trains on",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.trainer:Trainer.save_checkpoint": _with_count,
        "fairseq.checkpoint_utils:load_checkpoint": _counting_on,
    },
)
