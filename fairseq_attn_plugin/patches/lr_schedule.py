"""Learning rate schedules that follow the validation metric see the last epoch's when a training is resumed.

Stock fairseq saves the checkpoint of an epoch's end first, and then gives the scheduler the epoch's metric. The
scheduler in the checkpoint does not know it, and a resumed training never hears of it: each interruption loses an epoch
of ``reduce_lr_on_plateau`` and ``decay_after_rise``. The patch makes the missing step, with the metric that fairseq
stores in the checkpoint. A checkpoint from within an epoch has a scheduler that has made all its steps.
"""

from typing import Any, Callable, Dict, Optional

from .wrapping import Patch

__all__ = ["PATCH"]


def _with_last_metric(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_checkpoint(
        self: Any,
        filename: str,
        reset_optimizer: bool = False,
        reset_lr_scheduler: bool = False,
        optimizer_overrides: Optional[Dict[str, Any]] = None,
        reset_meters: bool = False,
    ) -> Any:
        extra_state = load(
            self, filename, reset_optimizer, reset_lr_scheduler, optimizer_overrides, reset_meters=reset_meters
        )
        # a rate that the user sets for the resumed training stays
        if extra_state is None or reset_optimizer or reset_lr_scheduler or "lr" in (optimizer_overrides or {}):
            return extra_state
        place, metric = extra_state["train_iterator"], extra_state.get("val_loss")
        # at an epoch's end fairseq stores the start of the next one
        if metric is not None and place.get("version", 1) >= 2 and place["iterations_in_epoch"] == 0:
            self.lr_step(place["epoch"] - 1, metric)
        return extra_state

    return load_checkpoint


PATCH = Patch(
    name="lr_schedule",
    reason="a resumed training loses a step of learning rate schedules that follow the validation metric",
    checked=("0.12.3.1",),
    wraps={"fairseq.trainer:Trainer.load_checkpoint": _with_last_metric},
)
