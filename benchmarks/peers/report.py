"""The result as Markdown: words per second of processor time, and ratios of times of the same round."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Rounds = Sequence[Mapping[str, float]]


def speed(rounds: Rounds, clock: str = "cpu") -> float:
    """Median over rounds of words per second."""
    return statistics.median(one["words"] / one[clock] for one in rounds)


def ratio(system: Rounds, baseline: Rounds) -> tuple[float, float, float]:
    """Median, lowest and highest over rounds of (baseline's time / system's time): above 1 is faster."""
    values = [theirs["cpu"] / own["cpu"] for own, theirs in zip(system, baseline)]
    return statistics.median(values), min(values), max(values)


def markdown(report: Mapping[str, Any]) -> str:
    """Heading, a table for training, one for translation, and the versions."""
    stages = {name: report[name] for name in ("train", "translate") if name in report}
    parts = [
        "# Peers\n\nMulti30k German-English, joint BPE, one thread each; words per second of processor time.\n"
        "A ratio is the median over rounds of (baseline's time / system's time): above 1 is faster than the baseline; "
        "lowest and highest round in brackets."
    ]
    versions = {}
    for name, stage in stages.items():
        how, columns = stage["settings"], {}
        if name == "train":
            title = f"Training, {how['updates']} updates of {how['tokens']} tokens"
        else:
            title = "Translation, beam 5"
            columns = {"BLEU": lambda one: f"{one['bleu']:.2f}", "words out": lambda one: f"{one['words_out']:,}"}
        parts += [f"## {title}", f"{stage['machine']}\n\n`{stage['command']}`"]
        parts += [_table(stage["systems"], stage["baselines"], "target" if name == "train" else "source", columns)]
        versions.update({system: one["versions"] for system, one in stage["systems"].items()})
    lines = [f"- `{name}`: {', '.join(' '.join(pair) for pair in its.items())}" for name, its in versions.items()]
    return "\n\n".join([*parts, "## Versions", "\n".join(lines)]) + "\n"


def _table(systems: Mapping[str, Any], baselines: Sequence[str], side: str, columns: Mapping[str, Callable]) -> str:
    present = [name for name in baselines if name in systems]
    head = ["system", "parameters", f"{side} words/s", "by the wall clock", *(f"x {one}" for one in present), *columns]
    lines = [head, [":--", *["--:"] * (len(head) - 1)]]
    for name, one in systems.items():
        speeds = [f"{speed(one['rounds'], clock):,.0f}" for clock in ("cpu", "wall")]
        ratios = ["%.2f (%.2f-%.2f)" % ratio(one["rounds"], systems[base]["rounds"]) for base in present]
        more = [show(one) for show in columns.values()]
        lines.append([f"`{name}`", f"{one['parameters']:,}", *speeds, *ratios, *more])
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
