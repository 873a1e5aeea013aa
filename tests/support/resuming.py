"""Trainings that are killed at an update and started again, and the comparison with uninterrupted ones.

``train_and_die`` ends a training inside the test process as ``kill -9`` ends a process: nothing is written or closed
after it. ``differences`` compares two checkpoints bit by bit.
"""

from pathlib import Path
from typing import Any
from unittest import mock

import torch
from fairseq.checkpoint_utils import load_checkpoint_to_cpu
from fairseq.trainer import Trainer
from in_process import run_tool
from torch.utils._pytree import keystr, tree_flatten_with_path

from cli import TINY, USER_DIR

# what a clock makes differ
CLOCKS = {"metrics", "previous_training_time"}


class Killed(BaseException):
    """Stands for ``kill -9``: nothing of fairseq or of the package catches it."""


def command(data: object, arch: str, folder: object, *options: object) -> "list[object]":
    """Three epochs of five updates, with dropout; the last option of a name counts."""
    base = ["fairseq-train", data, "--user-dir", USER_DIR, "--save-dir", folder, *TINY[arch], "--optimizer", "adam"]
    base += ["--lr", 0.01, "--clip-norm", 1, "--batch-size", 100, "--dropout", 0.2, "--max-epoch", 3]
    return [*base, "--save-interval-updates", 3, "--no-progress-bar", "--cpu", *options]


def train_and_die(words: "list[object]", update: int) -> None:
    """Runs the training until it begins the update with this number (the first is 1)."""
    step = Trainer.train_step

    def train_step(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.get_num_updates() + 1 == update:
            raise Killed
        return step(self, *args, **kwargs)

    try:
        with mock.patch.object(Trainer, "train_step", train_step):
            run_tool(*words)
    except Killed:
        return
    raise AssertionError("the training has ended before update %d" % update)


def differences(one: Path, two: Path) -> "list[str]":
    """The names of all values in which two checkpoints differ; their configurations name different folders."""
    (first, second), different = map(_values, (one, two)), object()
    return [name for name in {**first, **second} if not _same(first.get(name, different), second.get(name))]


def _values(path: Path) -> "dict[str, Any]":
    """The values in the state of a checkpoint by their places, without those that a clock makes differ."""
    state = load_checkpoint_to_cpu(str(path))
    state["optimizer_history"] = state["optimizer_history"][-1]  # it has an entry for each process
    del state["cfg"]
    leaves, _ = tree_flatten_with_path(state, is_leaf=lambda value: isinstance(value, (dict, list)) and not value)
    return {keystr(place): value for place, value in leaves if not CLOCKS & {getattr(key, "key", "") for key in place}}


def _same(one: Any, two: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
        return one.dtype == two.dtype and torch.equal(one, two)
    return type(one) is type(two) and bool(one == two)
