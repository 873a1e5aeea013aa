"""Averages checkpoints of a training: the parameters of the average are the means of theirs.

An average of the last or best checkpoints translates a little better than one of them (Popel and Bojar 2018,
"Training Tips for the Transformer Model", section 4.10). The file is a checkpoint of fairseq without the state of the
optimiser.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

import torch
from fairseq import checkpoint_utils

import fairseq_attn_plugin  # noqa: F401  (checks checkpoints when they are read)
from fairseq_attn_plugin.checkpoints import architecture, check_finite, origin, plain_config
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.resuming import checkpoints
from fairseq_attn_plugin.writing import whole_file


class Part(NamedTuple):
    """A checkpoint before it is averaged."""

    path: str
    updates: int
    epoch: int
    value: Optional[float]  # of --best-checkpoint-metric

    def __str__(self) -> str:
        value = "" if self.value is None else f", {self.value:g} in validation"
        return f"{self.path} (epoch {self.epoch}, {self.updates:,} updates{value})"


def average(paths: Sequence[str], out: str) -> List[Part]:
    """Writes the average of checkpoints of the same model.

    Args:
        paths: at least two
        out: file to write

    Returns:
        what it is made of

    Raises:
        OptionError: a file cannot be read or written, or the checkpoints are not of one training of one model
    """
    sums: Dict[str, torch.Tensor] = {}
    parts: List[Part] = []
    state: Dict[str, Any] = {}
    first: Dict[str, Any] = {}
    for path in paths:
        state = _read(path)
        check_finite(path, (pair for pair in state["model"].items() if _has_mean(pair[1])))
        if not first:
            first = {**state, "model": {name: _form(value) for name, value in state["model"].items()}}
        _check_same(first, state, paths[0], path)
        for name, value in state["model"].items():
            # counters and tables of integers have no mean: the last one's count
            exact = value.double() if _has_mean(value) else value
            sums[name] = sums[name] + exact if name in sums and _has_mean(value) else exact
        parts.append(_part(path, state))
    model = {
        name: (value / len(paths)).to(first["model"][name].dtype) if _has_mean(value) else value
        for name, value in sums.items()
    }
    kept = {key: value for key, value in state.items() if key != "last_optimizer_state"}
    kept.update({"model": model, "cfg": plain_config(state["cfg"])})
    with whole_file(out, f"--out {out}: cannot be written") as partial, open(partial, "wb") as stream:
        torch.save(kept, stream)
    return parts


def _has_mean(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _form(value: Any) -> Any:
    """Shape and type of a tensor, without its elements; None for what is no tensor."""
    return value.to("meta") if isinstance(value, torch.Tensor) else None


def last_of(folder: str, count: int) -> List[str]:
    """The checkpoints with the most updates, the earliest first."""
    found = sorted(_distinct(folder), key=lambda part: part.updates)
    return _enough(folder, f"--last {count}", found, count)[-count:]


def best_of(folder: str, count: int) -> List[str]:
    """The checkpoints with the best ``--best-checkpoint-metric``, the best first."""
    found = [part for part in _distinct(folder) if part.value is not None]
    most = bool(found) and _section(_read(found[0].path), "checkpoint").get("maximize_best_checkpoint_metric")
    found.sort(key=lambda part: (-1 if most else 1) * (part.value or 0.0))
    return _enough(folder, f"--best {count}", found, count)[:count]


def _distinct(folder: str) -> List[Part]:
    """The checkpoints of a folder; of copies, such as ``checkpoint_best.pt`` of an epoch's, the one of the epoch."""
    if not Path(folder).is_dir():
        raise OptionError(f"{folder}: is not a folder; --last and --best choose from a folder of checkpoints")
    files = sorted(
        checkpoints(folder, ""), key=lambda path: (re.match(r"checkpoint_?\d", Path(path).name) is None, path)
    )
    found: Dict[int, Part] = {}
    for path in files:
        part = _part(path, _read(path))
        found.setdefault(part.updates, part)
    return list(found.values())


def _enough(folder: str, option: str, parts: Sequence[Part], count: int) -> List[str]:
    if len(parts) < count:
        raise OptionError(
            f"{option}: {folder} has {len(parts)} checkpoints to choose from; fairseq-train --keep-last-epochs or "
            "--keep-best-checkpoints (without --no-epoch-checkpoints) keeps more"
        )
    return [part.path for part in parts]


def _read(path: str) -> Dict[str, Any]:
    state: Dict[str, Any] = checkpoint_utils.load_checkpoint_to_cpu(path)
    return state


def _part(path: str, state: Dict[str, Any]) -> Part:
    extra = state.get("extra_state") or {}
    following = extra.get("train_iterator") or {}  # of the next update: at the end of an epoch the next epoch
    epoch = int(following.get("epoch", 0)) - (following.get("iterations_in_epoch") == 0)
    value = extra.get("val_loss")
    updates = int(state["optimizer_history"][-1].get("num_updates", 0))
    return Part(os.path.abspath(path), updates, max(epoch, 0), None if value is None else float(value))


def _section(state: Dict[str, Any], name: str) -> Dict[str, Any]:
    section = (state.get("cfg") or {}).get(name) or {}
    return dict(section) if hasattr(section, "items") else vars(section)


def _check_same(first: Dict[str, Any], state: Dict[str, Any], name: str, path: str) -> None:
    """Raises ``OptionError`` unless both are of one training, or of trainings that began with the same parameters."""

    def refuse(what: str) -> OptionError:
        return OptionError(f"{path}: {what}; an average needs checkpoints of one model, such as those of one training")

    mine, other = _section(state, "model"), _section(first, "model")
    if architecture(mine) != architecture(other):
        raise refuse(f"is of architecture {architecture(mine)}, {name} of {architecture(other)}")
    if state["model"].keys() != first["model"].keys():
        (key, *_) = sorted(state["model"].keys() ^ first["model"].keys())
        raise refuse(f"{'has' if key in state['model'] else 'lacks'} the parameter {key}, unlike {name}")
    for key, value in state["model"].items():
        here, there = _form(value), first["model"][key]
        if here is not None and here.shape != there.shape:
            raise refuse(f"has {key} of {list(here.shape)}, {name} of {list(there.shape)}")
    began = [origin(_section(one, "checkpoint")) for one in (state, first)]
    seeds = [_section(one, "common").get("seed") for one in (state, first)]
    if seeds[0] != seeds[1] and (began[0] is None or began[0] != began[1]):
        what = " and another origin" if all(began) else ""
        raise OptionError(
            f"{path}: is of a training with --seed {seeds[0]}{what}, {name} with {seeds[1]}; their parameters have no "
            f"common meaning and no average. --path {name}:{path} translates with the mean of their predictions"
        )
