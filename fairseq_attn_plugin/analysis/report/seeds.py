"""Trainings that differ in the seed only are one system, which is shown by means and standard deviations."""

from __future__ import annotations

import json
import os
import statistics
from collections import Counter
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence

from fairseq_attn_plugin.analysis.report.systems import Reported, without_seed
from fairseq_attn_plugin.checkpoints import origin

__all__ = ["Group", "groups_of", "spread"]

# sections of fairseq's configuration that a system is made of, and single options of the others
_SECTIONS = ("model", "task", "criterion", "optimizer", "lr_scheduler", "optimization")
_OPTIONS = {
    "common": ("fp16", "bf16", "amp"),
    "dataset": ("max_tokens", "batch_size", "train_subset", "curriculum", "required_batch_size_multiple"),
    "checkpoint": ("patience", "best_checkpoint_metric", "maximize_best_checkpoint_metric"),
    "distributed_training": ("distributed_world_size",),
}


class Group(NamedTuple):
    """A system: trainings that differ in the seed only, in the order of their seeds."""

    name: str
    runs: List[Reported]

    @property
    def seeds(self) -> List[int]:
        """The seeds of the trainings; empty if one of them has no configuration."""
        return [_seed(run.config) for run in self.runs] if all(run.config for run in self.runs) else []


def groups_of(reported: Sequence[Reported]) -> List[Group]:
    """The systems, in the order of their first trainings.

    Two trainings are one system if their configurations differ in the seed, and besides only in files that they write
    and in options that change no parameter. A system of several trainings is named as they are, without the seed.
    """
    alike: Dict[str, List[Reported]] = {}
    for number, one in enumerate(reported):
        alike.setdefault(_essence(one.config) or str(number), []).append(one)
    runs = list(_apart(alike.values()))
    names = [_name([one.system.name for one in group]) for group in runs]
    often = Counter(names)
    return [Group(name if often[name] == 1 else group[0].system.name, group) for name, group in zip(names, runs)]


def _apart(groups: Iterable[List[Reported]]) -> Iterable[List[Reported]]:
    """A seed that occurs twice is no other seed: its trainings stay apart, those of the other seeds stay together."""
    for runs in groups:
        often = Counter(_seed(one.config) for one in runs)
        parts: Dict[Optional[int], List[Reported]] = {}
        for number, one in enumerate(runs):
            parts.setdefault(None if often[_seed(one.config)] == 1 else number, []).append(one)
        yield from (sorted(part, key=lambda one: _seed(one.config)) for part in parts.values())


def _name(names: Sequence[str]) -> str:
    stripped = {without_seed(name) for name in names}
    return stripped.pop() if len(stripped) == 1 and len(names) > 1 else names[0]


def _seed(config: Any) -> int:
    return int(_section(config, "common").get("seed", 0))


def _section(config: Any, name: str) -> Dict[str, Any]:
    section = (config or {}).get(name) or {}
    return dict(section) if hasattr(section, "items") else vars(section)


def _essence(config: Any) -> str:
    """What makes a system, as text; empty without a configuration."""
    if not config:
        return ""
    # a model or task that was given on the command line may have all options, those of other sections among them
    elsewhere = {key for name in config if name not in _SECTIONS for key in _section(config, name)}
    elsewhere.discard("_name")  # of each section: what was chosen
    essence: Dict[str, Dict[str, Any]] = {
        name: {key: value for key, value in _section(config, name).items() if key not in elsewhere}
        for name in _SECTIONS
    }
    for name, keys in _OPTIONS.items():
        essence[name] = {key: _section(config, name).get(key) for key in keys}
    user_dir = _section(config, "common").get("user_dir")
    essence["began"] = {
        "origin": origin(_section(config, "checkpoint")),
        "user_dir": user_dir and os.path.realpath(user_dir),
    }
    return json.dumps(essence, sort_keys=True, default=str)


def spread(values: Iterable[Optional[float]], digits: int) -> Optional[str]:
    """Mean, and in brackets the standard deviation of several values that differ; None without values."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = f"{statistics.mean(known):,.{digits}f}"
    deviation = statistics.stdev(known) if len(known) > 1 else 0.0
    return f"{mean} ({deviation:,.{digits}f})" if deviation else mean
