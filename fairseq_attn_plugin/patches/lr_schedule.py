"""A resumed training has the learning rates of an uninterrupted one.

Stock fairseq saves the checkpoint of an epoch's end first, and then gives the scheduler the epoch's metric. The
scheduler in the checkpoint does not know it, and a resumed training never hears of it: each interruption loses an epoch
of ``reduce_lr_on_plateau`` and ``decay_after_rise``. The patch makes the missing step, with the metric that fairseq
stores in the checkpoint. A checkpoint from within an epoch has a scheduler that has made all its steps.

The checkpoint holds a part of a scheduler only: ``reduce_lr_on_plateau`` forgets the epochs without an improvement
(``--lr-patience``), ``fixed`` and ``polynomial_decay`` the end of their warm-up. The patch stores all numbers. A
training that is resumed with other options of the scheduler goes on as in stock fairseq.
"""

from typing import Any, Callable, Dict, Optional

from omegaconf import OmegaConf

from .wrapping import Patch

__all__ = ["PATCH"]

STATE = "lr_schedule"


def _options(trainer: Any) -> Any:
    options = trainer.cfg.lr_scheduler
    return OmegaConf.to_container(options, resolve=True) if OmegaConf.is_config(options) else None


def _state(trainer: Any) -> Dict[str, Any]:
    scheduler = trainer.lr_scheduler
    inner: Any = getattr(scheduler, "lr_scheduler", None)  # torch's
    kinds = (bool, int, float, type(None))
    return {
        "options": _options(trainer),
        "numbers": {name: value for name, value in vars(scheduler).items() if isinstance(value, kinds)},
        "inner": inner.state_dict() if hasattr(inner, "state_dict") else None,
        "rates": [group["lr"] for group in trainer.optimizer.param_groups],
    }


def _restore(trainer: Any, state: Dict[str, Any]) -> None:
    vars(trainer.lr_scheduler).update(state["numbers"])
    if state["inner"] is not None:
        trainer.lr_scheduler.lr_scheduler.load_state_dict(state["inner"])
    for group, rate in zip(trainer.optimizer.param_groups, state["rates"]):
        group["lr"] = rate


def _with_state(save: Callable[..., Any]) -> Callable[..., Any]:
    def save_checkpoint(self: Any, filename: str, extra_state: Dict[str, Any]) -> Any:
        return save(self, filename, {**extra_state, STATE: _state(self)})

    return save_checkpoint


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
        state, place = extra_state.get(STATE), extra_state["train_iterator"]
        # at an epoch's end fairseq stores the start of the next one
        at_start = place.get("version", 1) >= 2 and place["iterations_in_epoch"] == 0
        if state is not None and state["options"] is not None and state["options"] == _options(self):
            _restore(self, state)
            self.schedule_within_epoch = None if at_start else state
        if at_start and extra_state.get("val_loss") is not None:
            self.lr_step(place["epoch"] - 1, extra_state["val_loss"])
        return extra_state

    return load_checkpoint


def _going_on(begin: Callable[..., Any]) -> Callable[..., Any]:
    """fairseq begins the epoch a second time when it resumes within it."""

    def begin_epoch(self: Any, epoch: int) -> Any:
        result = begin(self, epoch)
        state, self.schedule_within_epoch = getattr(self, "schedule_within_epoch", None), None
        if state is not None:
            _restore(self, state)
        return result

    return begin_epoch


PATCH = Patch(
    name="lr_schedule",
    reason="a resumed training loses a step or the state of its learning rate schedule",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.trainer:Trainer.save_checkpoint": _with_state,
        "fairseq.trainer:Trainer.load_checkpoint": _with_last_metric,
        "fairseq.trainer:Trainer.begin_epoch": _going_on,
    },
)
