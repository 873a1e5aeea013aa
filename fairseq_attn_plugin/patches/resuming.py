"""A training that is interrupted ends as one that is not, bit by bit; nothing is lost or trained by mistake.

- **Several trainings in one process** (``fairseq-hydra-train -m``): stock keeps the best scores as attributes of two
  functions, and writers for TensorBoard, where they outlive the training. They are forgotten when a trainer is made.
- **The order of batches:** stock forms the batches once, by random numbers of the epoch in which a process starts. Here
  it starts at epoch 1 and moves on. The loader is that of the starting epoch, too: ``--curriculum N`` went on without
  shuffling for ever. Tasks whose batches are made anew for each epoch get those of the epoch.
- **The learning rate:** stock saves an epoch's checkpoint before it gives the epoch's metric to the scheduler, and not
  all numbers of the scheduler, all of which are stored here. A training that is resumed with other options of the
  scheduler goes on as in stock fairseq.
- **Other options of the model** than those of the checkpoint are named in a warning; stock says nothing.
- ``--patience``: its best score is not ``save_checkpoint.best``, which changes only with those validations after which
  a checkpoint is saved.
- **Checkpoints are whole:** all are written beside their places, as ``NAME.pt.partial``, down to the disk, and renamed;
  they are copies and not links.
- **A training that has ended** trains no further, whether ``--max-update``, ``--patience`` or ``--stop-time-hours`` has
  ended it. A ``--restore-file`` must be there, and so must the file of ``--continue-once``.
"""

import contextlib
import errno
import logging
import os
import shutil
import sys
from typing import Any, BinaryIO, Callable, Dict, Iterator, Optional

import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from omegaconf import OmegaConf

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.options import file_options, flag
from fairseq_attn_plugin.writing import whole_file

from .wrapping import Patch, after, around, before, storing

logger = logging.getLogger(__name__)

# ---- multirun


@before
def _forgetting(*_args: Any, **_options: Any) -> None:
    """Deletes the best scores that fairseq keeps as attributes of functions, and its writers for TensorBoard."""
    from fairseq import checkpoint_utils
    from fairseq.logging import progress_bar

    for function in (checkpoint_utils.save_checkpoint, stops_early()):
        for attribute in {"best", "num_runs"} & vars(function).keys():
            delattr(function, attribute)
    progress_bar._close_writers()
    progress_bar._tensorboard_writers.clear()


def stops_early() -> Any:
    """The function that counts for ``--patience``; ``python -m fairseq_cli.train`` has one of its own."""
    from fairseq_cli import train

    main = sys.modules["__main__"]
    module: Any = main if getattr(main, "__file__", None) == train.__file__ else train
    return module.should_stop_early


MULTIRUN = Patch(
    name="multirun",
    reason="in a sweep, a job's checkpoint_best.pt and --patience depend on the scores of the jobs before it, and "
    "--tensorboard-logdir on their folders",
    wraps={"fairseq.trainer:Trainer.__init__": _forgetting},
)


# ---- batch order


@around
def _from_the_first_epoch(get: Callable[..., Any], self: Any, epoch: int, *args: Any, **kwargs: Any) -> Any:
    if epoch == 1 or kwargs.get("disable_iterator_cache"):  # parts of the data, one for each epoch
        iterator = get(self, epoch, *args, **kwargs)
    else:
        if kwargs.get("load_dataset", True):
            get(self, 1, *args, **kwargs)
        iterator = get(self, epoch, *args, **{**kwargs, "load_dataset": False})
        if kwargs.get("load_dataset", True):
            iterator.epoch = epoch
            if callable(getattr(iterator, "batch_sampler", None)):  # streams have none
                iterator.dataset.set_epoch(epoch)
                iterator._frozen_batches = None
    iterator.fix_batches_to_gpus = self.cfg.distributed_training.fix_batches_to_gpus
    return iterator


@around
def _as_the_epoch_asks(
    get: Callable[..., Any], self: Any, epoch: int, shuffle: bool, fix_batches_to_gpus: bool = False, offset: int = 0
) -> Any:
    # fairseq does not say it when it resumes within an epoch
    fix_batches_to_gpus = fix_batches_to_gpus or getattr(self, "fix_batches_to_gpus", False)
    sampler = getattr(self, "epoch_batch_sampler", None)
    if sampler is not None:
        sampler.shuffle, sampler.fix_batches_to_gpus = shuffle, fix_batches_to_gpus
    return get(self, epoch, shuffle, fix_batches_to_gpus=fix_batches_to_gpus, offset=offset)


BATCH_ORDER = Patch(
    name="batch_order",
    reason="a resumed training has other batches than an uninterrupted one; --curriculum never ends",
    wraps={
        "fairseq.trainer:Trainer.get_train_iterator": _from_the_first_epoch,
        "fairseq.data.iterators:EpochBatchIterator._get_iterator_for_epoch": _as_the_epoch_asks,
    },
)


# ---- lr schedule


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


@after
def _with_last_metric(
    extra_state: Optional[Dict[str, Any]],
    self: Any,
    filename: str,
    reset_optimizer: bool = False,
    reset_lr_scheduler: bool = False,
    optimizer_overrides: Optional[Dict[str, Any]] = None,
    reset_meters: bool = False,
) -> None:
    # a rate that the user sets for the resumed training stays
    if extra_state is None or reset_optimizer or reset_lr_scheduler or "lr" in (optimizer_overrides or {}):
        return
    state, place = extra_state.get(STATE), extra_state["train_iterator"]
    # at an epoch's end fairseq stores the start of the next one
    at_start = place.get("version", 1) >= 2 and place["iterations_in_epoch"] == 0
    if state is not None and state["options"] is not None and state["options"] == _options(self):
        _restore(self, state)
        self.schedule_within_epoch = None if at_start else (place["epoch"], state)
    if at_start and extra_state.get("val_loss") is not None:
        self.lr_step(place["epoch"] - 1, extra_state["val_loss"])


@after
def _going_on(_result: Any, self: Any, epoch: int) -> None:
    """fairseq begins the epoch a second time when it resumes within it, and not with ``--reset-dataloader``."""
    within, self.schedule_within_epoch = getattr(self, "schedule_within_epoch", None), None
    if within is not None and within[0] == epoch:
        _restore(self, within[1])


LR_SCHEDULE = Patch(
    name="lr_schedule",
    reason="a resumed training loses a step or the state of its learning rate schedule",
    wraps={
        "fairseq.trainer:Trainer.save_checkpoint": storing(lambda trainer: {STATE: _state(trainer)}),
        "fairseq.trainer:Trainer.load_checkpoint": _with_last_metric,
        "fairseq.trainer:Trainer.begin_epoch": _going_on,
    },
)


# ---- options of the model


OF_MODEL = "model_options"


def _of_model(trainer: Any) -> Dict[str, Any]:
    cfg = trainer.cfg.model
    dataclass = MODEL_DATACLASS_REGISTRY.get(getattr(cfg, "_name", None))
    if dataclass is None or not OmegaConf.is_config(cfg):  # a namespace with the options of everything
        return {OF_MODEL: {}}
    files, kinds = file_options(dataclass), (bool, int, float, str, type(None))  # a file may have been moved
    options: Any = OmegaConf.to_container(cfg)
    return {OF_MODEL: {name: x for name, x in options.items() if isinstance(x, kinds) and name not in files}}


@after
def _saying_what_differs(
    extra_state: Optional[Dict[str, Any]], self: Any, filename: str, *_args: Any, **_kwargs: Any
) -> None:
    was, now = (extra_state or {}).get(OF_MODEL, {}), _of_model(self)[OF_MODEL]
    differ = [name for name in now if name in was and now[name] != was[name]]
    if differ and self.data_parallel_rank == 0:
        changes = ", ".join(f"{flag(name)} {now[name]} (was {was[name]})" for name in differ)
        logger.warning(f"goes on from {filename} with other options of the model: {changes}")


MODEL_OPTIONS = Patch(
    name="model_options",
    reason="a training goes on with another attention or dropout than before, and says nothing",
    wraps={
        "fairseq.trainer:Trainer.save_checkpoint": storing(_of_model),
        "fairseq.trainer:Trainer.load_checkpoint": _saying_what_differs,
    },
)


# ---- patience


COUNT, BEST = "validations_without_improvement", "best_of_patience"


def _count(_trainer: Any) -> Dict[str, Any]:
    counter = stops_early()
    return {COUNT: getattr(counter, "num_runs", 0), **({BEST: counter.best} if hasattr(counter, "best") else {})}


@after
def _counting_on(loaded: Any, cfg: Any, trainer: Any, **_options: Any) -> None:
    from fairseq import checkpoint_utils

    extra_state, _iterator = loaded
    # fairseq sets it if the training is resumed: not with --reset-meters, nor at the start of a fine-tuning
    best = getattr(checkpoint_utils.save_checkpoint, "best", None)
    if cfg.patience > 0 and extra_state is not None and best is not None:
        counter = stops_early()
        counter.best, counter.num_runs = extra_state.get(BEST, best), extra_state.get(COUNT, 0)


PATIENCE = Patch(
    name="patience",
    reason="a resumed training forgets how long --patience has lasted, and trains on",
    wraps={
        "fairseq.trainer:Trainer.save_checkpoint": storing(_count),
        "fairseq.checkpoint_utils:load_checkpoint": _counting_on,
    },
)


# ---- whole checkpoints


@contextlib.contextmanager
def _whole(path: str) -> Iterator[BinaryIO]:
    """A stream whose bytes become ``path`` at the end of the block; on failure nothing is left of them.

    A link to another folder stays, and its target is written; a link to a checkpoint beside it gives way.

    Raises:
        OptionError: the file cannot be written
    """
    is_beside = os.path.dirname(os.path.realpath(path)) == os.path.realpath(os.path.dirname(path))
    failure = f"checkpoint {path} cannot be written (earlier ones are whole: make room, and the same command goes on)"
    with whole_file(path, failure, follow=not is_beside) as partial, open(partial, "wb") as stream:
        yield stream
        stream.flush()
        try:
            os.fsync(stream.fileno())
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):  # some file systems do not have it
                raise


@around
def _saving_whole(save: Callable[..., Any], obj: Any, filename: Any, async_write: bool = False) -> Any:
    from fairseq.file_io import PathManager

    if async_write or not isinstance(filename, str) or not PathManager.supports_rename(filename):
        return save(obj, filename, async_write)
    with _whole(filename) as stream:
        torch.save(obj, stream)


def _copy_whole() -> None:
    from fairseq import checkpoint_utils
    from fairseq.file_io import PathManager

    if getattr(checkpoint_utils.PathManager, "copies_whole", False):
        return

    class WholeCopies(PathManager):  # type: ignore[misc]
        copies_whole = True

        @staticmethod
        def copy(src_path: str, dst_path: str, overwrite: bool = False) -> bool:
            if not (overwrite and PathManager.supports_rename(src_path) and PathManager.supports_rename(dst_path)):
                return bool(PathManager.copy(src_path, dst_path, overwrite=overwrite))
            with _whole(dst_path) as copy, open(src_path, "rb") as source:
                shutil.copyfileobj(source, copy, 1 << 20)
            return True

    checkpoint_utils.PathManager = WholeCopies


WHOLE_CHECKPOINTS = Patch(
    name="whole_checkpoints",
    reason="a kill or a full disk leaves half a checkpoint_last.pt or checkpoint_best.pt",
    wraps={"fairseq.checkpoint_utils:torch_persistent_save": _saving_whole},
    extra=_copy_whole,
)


# ---- restarts


@around
def _where_there_is_something_to_do(load: Callable[..., Any], cfg: Any, trainer: Any, **options: Any) -> Any:
    from fairseq.file_io import PathManager

    path = cfg.restore_file.replace(".pt", trainer.checkpoint_suffix + ".pt")
    last = os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
    begins = cfg.restore_file == "checkpoint_last.pt" or os.path.abspath(path) == os.path.abspath(last)
    is_new = not PathManager.exists(last)
    once = getattr(cfg, "continue_once", None) if begins and is_new else None
    if once is not None and not PathManager.isfile(once):
        raise OptionError(f"--continue-once {once}: no such file; leave it out to begin in --save-dir {cfg.save_dir}")
    if not begins and not PathManager.isfile(path):
        raise OptionError(
            f"--restore-file {path}: no such file; leave it out to continue what is in --save-dir {cfg.save_dir}, "
            "or to begin there"
        )
    extra_state, iterator = load(cfg, trainer, **options)
    if is_new and cfg.finetune_from_model is not None:
        trainer._previous_training_time = 0  # that of another training, which --stop-time-hours does not limit
    done = trainer.get_num_updates()
    if begins and not is_new and not cfg.reset_optimizer:
        # without the state of the optimizer (--no-save-optimizer-state) only the history has the number of updates
        done = max([done, *(one["num_updates"] for one in trainer._optim_history[-1:])])
    without = getattr(stops_early(), "num_runs", 0)
    limit = None if extra_state is None else _limit(trainer, iterator, done, without)
    if limit is not None:
        place = once or (cfg.save_dir if begins else path)
        logger.info(
            f"nothing to do: the training in {place} has ended after {done} updates by {limit}; a higher value "
            "continues it"
        )
        # fairseq_cli.train, which may run as __main__, reads it next, and has no epoch before it
        trainer.cfg.optimization.max_epoch = -1
    return extra_state, iterator


def _limit(trainer: Any, iterator: Any, updates: int, without_improvement: int) -> Optional[str]:
    """The option that has ended the training, if it has ended."""
    optimization, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    hours = trainer.cumulative_training_time() / 3600
    for option, value, reached in (
        ("--max-update", optimization.max_update, updates),
        ("--max-epoch", optimization.max_epoch, iterator.next_epoch_idx - 1),
        ("--patience", patience, without_improvement),
        ("--stop-time-hours", optimization.stop_time_hours, hours),
    ):
        if 0 < (value or 0) <= reached:
            return f"{option} {value}"
    return None


RESTARTS = Patch(
    name="restarts",
    reason="a finished training makes one more update; a mistyped --restore-file or --continue-once begins anew",
    wraps={"fairseq.checkpoint_utils:load_checkpoint": _where_there_is_something_to_do},
)
