"""The result as Markdown: words per second of processor time, and ratios of times of the same round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fairseq_attn_plugin.analysis.outputs.tables import markdown_table

from benchmark.measure import round_ratios, summary

Column = tuple[str, Callable[[Mapping[str, Any]], str]]


def speed(rounds: Sequence[Mapping[str, float]], clock: str = "cpu") -> float:
    """Median over rounds of words per second."""
    return summary([one["words"] / one[clock] for one in rounds])["median"]


def markdown(report: Mapping[str, Any]) -> str:
    """Heading, a table for training, one for translation, and the versions."""
    how, training, translation = report["settings"], report.get("train", {}), report.get("translate", {})
    parts = [
        f"# Peers\n\n{report['machine']}, one thread each, processor time. Multi30k German-English, joint BPE; "
        f"{how['tokens']} tokens per batch, {how['updates']} updates, the same batches for all.\n"
        "A ratio is the median over rounds of (baseline's time / system's time): above 1 is faster than the baseline; "
        "lowest and highest round in brackets.\n\n"
        f"`{report['command']}`"
    ]
    if training:
        parts += ["## Training", _table(training, report["baselines"], "target words/s", [])]
    if translation:
        more: list[Column] = [("BLEU", lambda one: f"{one['bleu']:.2f}"), ("words out", lambda one: one["words_out"])]
        parts += ["## Translation, beam 5", _table(translation, report["baselines"], "source words/s", more)]
    versions = {
        name: ", ".join(f"{package} {version}" for package, version in one["versions"].items())
        for name, one in {**training, **translation}.items()
    }
    parts += ["## Versions", "\n".join(f"- `{name}`: {text}" for name, text in versions.items())]
    return "\n\n".join(parts) + "\n"


def _table(systems: Mapping[str, Any], baselines: Sequence[str], unit: str, more: Sequence[Column]) -> str:
    present = [name for name in baselines if name in systems]
    head = ["system", "parameters", unit, f"{unit} (wall)", *(f"x {name}" for name in present)]
    rows = []
    for name, one in systems.items():
        speeds = [f"{speed(one['rounds'], clock):,.0f}" for clock in ("cpu", "wall")]
        pairs = [summary(round_ratios(systems[base]["rounds"], one["rounds"], "cpu")) for base in present]
        ratios = ["{median:.2f} ({min:.2f}-{max:.2f})".format(**pair) for pair in pairs]
        rows.append([f"`{name}`", f"{one['parameters']:,}", *speeds, *ratios, *(show(one) for _, show in more)])
    return markdown_table([*head, *(name for name, _ in more)], rows, "l" + "r" * (len(head) + len(more) - 1))
