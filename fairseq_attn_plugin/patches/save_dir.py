"""A training keeps its ``--save-dir`` to itself, and begins only what there is to do.

- Two trainings with one folder would overwrite each other's checkpoints: the second is refused. The lock (``flock`` of
  the folder) ends with its process, however that ends. Trainings with a ``--checkpoint-suffix`` may share a folder.
- What a killed process left of a checkpoint that it was writing is removed.
- A folder that cannot be written is refused in one line.
- ``--restore-file`` names a file that is there, and so does a link ``checkpoint_last.pt``. Stock fairseq trains from
  scratch if it is not.
- A training that has ended trains no further. Stock fairseq makes one more update and overwrites its checkpoints,
  whether ``--max-update``, ``--patience`` or ``--stop-time-hours`` has ended it.
"""

import contextlib
import logging
import os
import weakref
from typing import Any, Callable, List, Optional

import portalocker

from fairseq_attn_plugin.errors import OptionError

from .multirun import stops_early
from .whole_checkpoints import PARTIAL, checkpoints
from .wrapping import Patch

__all__ = ["PATCH"]

logger = logging.getLogger(__name__)

# ---- one training


_held: List[int] = []  # the descriptor of the locked folder, of the training that began last


def _let_go(held: List[int]) -> None:
    while held:
        os.close(held.pop())


# Processes that load data inherit the lock, and live some seconds longer than a training that is killed.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=lambda: _let_go(_held))


def _hold(folder: str) -> List[int]:
    """Locks a folder until this process locks another one or ends; :func:`_let_go` ends it earlier.

    Returns:
        the lock, or nothing if there are no locks

    Raises:
        OptionError: another process holds it
    """
    global _held
    _let_go(_held)
    _held = []
    try:
        _held.append(os.open(folder, os.O_RDONLY))
        portalocker.lock(_held[0], portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
    except portalocker.exceptions.AlreadyLocked:
        _let_go(_held)
        raise OptionError(
            f"--save-dir {folder}: another training is writing there; wait for its end, or choose another folder"
        ) from None
    except (OSError, portalocker.exceptions.LockException) as error:
        _let_go(_held)
        logger.warning(f"--save-dir {folder} cannot be locked ({error}): start no second training there")
    return _held


def _alone(start: Callable[..., None]) -> Callable[..., None]:
    def start_alone(self: Any, cfg: Any, *args: Any, **kwargs: Any) -> None:
        start(self, cfg, *args, **kwargs)
        from fairseq.distributed.utils import is_master

        options = self.cfg.checkpoint
        # a store has addresses, and no folders
        if (
            options.no_save
            or options.checkpoint_suffix
            or not is_master(self.cfg.distributed_training)
            or not os.path.isdir(options.save_dir)
        ):
            return
        held = _hold(options.save_dir)
        weakref.finalize(self, _let_go, held)
        for left in checkpoints(options.save_dir, self.checkpoint_suffix, PARTIAL) if held else ():
            with contextlib.suppress(OSError):
                os.unlink(left)

    return start_alone


def _in_one_line(verify: Callable[[str], None]) -> Callable[[str], None]:
    def verify_checkpoint_directory(save_dir: str) -> None:
        try:
            verify(save_dir)
        except OSError as error:
            raise OptionError(
                f"--save-dir {save_dir}: cannot be written ({error.strerror or error}); choose another folder"
            ) from error

    return verify_checkpoint_directory


# ---- what there is to do


def _where_there_is_something_to_do(load: Callable[..., Any]) -> Callable[..., Any]:
    def load_checkpoint(cfg: Any, trainer: Any, **options: Any) -> Any:
        from fairseq.file_io import PathManager

        path = cfg.restore_file.replace(".pt", trainer.checkpoint_suffix + ".pt")
        last = os.path.join(cfg.save_dir, f"checkpoint_last{trainer.checkpoint_suffix}.pt")
        begins = cfg.restore_file == "checkpoint_last.pt" or os.path.abspath(path) == os.path.abspath(last)
        if begins and os.path.islink(last) and not os.path.exists(last):
            raise OptionError(
                f"{last}: is a link to {os.readlink(last)}, which is not there; mount its disk to continue, or remove "
                "the link to begin again"
            )
        if not begins and not PathManager.isfile(path):
            raise OptionError(
                f"--restore-file {path}: no such file; leave it out to continue what is in --save-dir {cfg.save_dir}, "
                "or to begin there"
            )
        extra_state, iterator = load(cfg, trainer, **options)
        limit = None if extra_state is None else _limit(trainer, iterator, getattr(stops_early(), "num_runs", 0))
        if limit is not None:
            logger.info(
                f"nothing to do: the training in {cfg.save_dir} has ended after {trainer.get_num_updates()} updates by "
                f"{limit}; a higher value continues it"
            )
            # fairseq_cli.train, which may run as __main__, reads it next, and has no epoch before it
            trainer.cfg.optimization.max_epoch = -1
        return extra_state, iterator

    return load_checkpoint


def _limit(trainer: Any, iterator: Any, without_improvement: int) -> Optional[str]:
    """The option that has ended the training, if it has ended."""
    optimization, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    hours = trainer.cumulative_training_time() / 3600
    for option, value, reached in (
        ("--max-update", optimization.max_update, trainer.get_num_updates()),
        ("--max-epoch", optimization.max_epoch, iterator.next_epoch_idx - 1),
        ("--patience", patience, without_improvement),
        ("--stop-time-hours", optimization.stop_time_hours, hours),
    ):
        if 0 < (value or 0) <= reached:
            return f"{option} {value}"
    return None


PATCH = Patch(
    name="save_dir",
    reason="trainings overwrite each other and finished ones; a mistyped --restore-file trains from scratch",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.trainer:Trainer.__init__": _alone,
        "fairseq.checkpoint_utils:verify_checkpoint_directory": _in_one_line,
        "fairseq.checkpoint_utils:load_checkpoint": _where_there_is_something_to_do,
    },
)
