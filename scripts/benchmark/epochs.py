"""Training on whole epochs: the section ``epochs`` of the benchmark.

fairseq's own batches of a corpus, shuffled and ragged, not one shape. The systems take turns group by group of batches,
so that the noise of the machine meets all of them, and every system trains on all batches.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from benchmark.corpus import batches_of, open_task
from benchmark.measure import Sample, interleave, peak_memory, round_ratios, summary
from benchmark.options import positive
from benchmark.sections import Tick, train_step
from benchmark.systems import Sizes, Spec, System, to_device
from benchmark.tables import MIB, speed, table
from benchmark.targets import ADM_FAST, SOFT, SOFT_EXACT, SOFT_FAST, STOCK, UNFED_FAST

SYSTEMS = (STOCK, SOFT, SOFT_EXACT, SOFT_FAST, UNFED_FAST, ADM_FAST)
QUICK = {
    "epoch_archs": ["lstm", "lstm_soft"],
    "max_tokens": 60,
    "batches": 4,
    "group": 2,
    "corpus_sentences": 24,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("whole epochs, translation").add_argument
    add("--data", metavar="FOLDER", help="folder of fairseq-preprocess (default: a random corpus)")
    add("--corpus-sentences", type=positive, default=29000, help="sentences of the random corpus (29000)")
    add(
        "--epoch-archs",
        nargs="+",
        metavar="ARCH[:opt=value,...]",
        default=list(SYSTEMS),
        help=f"systems of the epochs section; ratios are against the first ({' '.join(SYSTEMS)})",
    )
    add("--epochs", type=positive, default=1, help="epochs of the epochs section (1)")
    add("--batches", type=positive, help="batches of the sections epochs and translate (default: all)")
    add("--group", type=positive, default=15, help="batches that a system trains on before the next one (15)")
    add("--max-tokens", type=positive, default=2000, help="fairseq's --max-tokens of training (2000)")


def turns(settings: Mapping[str, Any]) -> int:
    """A guess, for the progress bar: the number of batches is not known yet."""
    batches = settings["batches"] or 250 * settings["epochs"]
    return (settings["warmup"] + -(-batches // settings["group"])) * len(settings["epoch_archs"])


def measure(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    task = open_task(settings, "train")
    batches = batches_of(task, "train", settings, True, settings["epochs"], max_tokens=settings["max_tokens"])
    batches = [to_device(batch, device) for batch in batches[: settings["batches"]]]
    groups = [batches[start : start + settings["group"]] for start in range(0, len(batches), settings["group"])]
    largest = max(batches, key=lambda batch: batch["target"].numel())
    systems = {}
    for text in settings["epoch_archs"]:
        spec, sizes = Spec.parse(text), Sizes(**settings["sizes"])
        systems[str(spec)] = System(spec, sizes, task, device, settings["seed"], settings["optimizer"])
    order: dict[str, int] = dict.fromkeys(systems, -settings["warmup"])  # warm-up takes the last groups

    def run(name: str) -> Sample:
        samples = [train_step(systems[name], batch, device) for batch in groups[order[name]]]
        order[name] += 1
        return {part: sum(sample[part] for sample in samples) for part in samples[0]}

    raw = interleave(
        {name: (lambda name=name: run(name)) for name in systems},
        len(groups),
        settings["warmup"],
        lambda name: tick(f"epochs {name}"),
    )
    clock, words = settings["clock"], sum(int(batch["ntokens"]) for batch in batches)
    baseline = next(iter(systems))
    section: dict[str, Any] = {
        "corpus": Path(settings["data"]).name if settings["data"] else "random",
        "vocabularies": [len(task.source_dictionary), len(task.target_dictionary)],
        "batches": len(batches),
        "target_tokens": words,
        "largest_target": list(largest["target"].shape),
        "raw": raw,
        "systems": {},
    }
    for name, system in systems.items():
        seconds = sum(sample[clock] for sample in raw[name])
        section["systems"][name] = {
            "seconds": seconds,
            "cpu_seconds": sum(sample["cpu"] for sample in raw[name]),
            "tokens_per_second": words / seconds,
            "parameters": system.size(),
            "last_loss": raw[name][-1]["loss"] / len(groups[-1]),
            "peak_memory_bytes": peak_memory(lambda system=system: train_step(system, largest, device), device),
            "time_ratio": {},
        }
    for base in {baseline, SOFT_FAST} & set(systems):
        for name in systems:
            ratios = round_ratios(raw[name], raw[base], clock)
            whole = section["systems"][name]["seconds"] / section["systems"][base]["seconds"]
            section["systems"][name]["time_ratio"][base] = {**summary(ratios), "whole": whole, "rounds": ratios}
    return {"epochs": {"all": section}}


def tables(report: Mapping[str, Any]) -> list[str]:
    section, how = report["sections"]["epochs"]["all"], report["settings"]
    systems = section["systems"]
    baseline = next(iter(systems))
    rows = []
    for name, figures in systems.items():
        memory = figures["peak_memory_bytes"] / systems[baseline]["peak_memory_bytes"]
        rows.append(
            [
                f"`{name}`",
                f"{figures['tokens_per_second']:,.0f}",
                speed(figures["time_ratio"][baseline]["rounds"]),
                f"{1 / figures['time_ratio'][baseline]['whole']:.2f}",
                f"{figures['cpu_seconds']:.1f}",
                f"{figures['peak_memory_bytes'] / MIB:,.0f} ({memory:.2f})",
                f"{figures['last_loss']:.3f}",
            ]
        )
    header: Sequence[str] = (
        *("system", "words/s", f"× {baseline}", "whole", "CPU, s", f"peak MiB (/ {baseline})", "loss"),
    )
    return [
        "## Whole epochs",
        f"{section['batches']} shuffled batches ({section['target_tokens']:,} target words, {how['epochs']} epoch(s) "
        f"at most, --max-tokens {how['max_tokens']}) of the corpus `{section['corpus']}`, vocabularies of "
        f"{' and '.join(f'{size:,}' for size in section['vocabularies'])}. The systems change every {how['group']} "
        "batches; ratios are medians over these groups, lowest and highest group in brackets; *whole* is the ratio of "
        f"all batches together. Peak memory is that of the batch with the largest target, "
        f"{' x '.join(map(str, section['largest_target']))}. The loss is the mean of the last group, in nats.",
        table(header, rows),
    ]
