"""Training on whole epochs: the section ``epochs`` of the benchmark.

fairseq's own batches of a corpus, shuffled and ragged, not one shape. The systems take turns group by group of batches,
so that the noise of the machine meets all of them, and every system trains on all batches.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from benchmark.corpus import batches_of, open_task
from benchmark.measure import MIB, Sample, interleave, peak_memory, round_ratios, speed, sum_of, summary, table
from benchmark.models import Tick, train_step
from benchmark.systems import SOFT, STOCK, Sizes, Spec, System, to_device

SYSTEMS = (
    *(STOCK, SOFT, "lstm_soft:optimizer=fused_adam"),
    "lstm_soft:matmul_precision=bfloat16,optimizer=fused_adam",
    "lstm_soft:input_feeding=none,matmul_precision=bfloat16,optimizer=fused_adam",
    "lstm_adm:matmul_precision=bfloat16,optimizer=fused_adam",
)


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
        order[name] += 1
        return sum_of([train_step(systems[name], batch, device) for batch in groups[order[name] - 1]])

    runs = {name: partial(run, name) for name in systems}
    raw = interleave(runs, len(groups), settings["warmup"], lambda name: tick(f"epochs {name}"))
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
        whole = sum_of(raw[name])
        ratios = round_ratios(raw[name], raw[baseline], clock)
        ratio = {**summary(ratios), "whole": whole[clock] / sum_of(raw[baseline])[clock], "rounds": ratios}
        section["systems"][name] = {
            "seconds": whole[clock],
            "cpu_seconds": whole["cpu"],
            "tokens_per_second": words / whole[clock],
            "parameters": system.size(),
            "last_loss": raw[name][-1]["loss"] / len(groups[-1]),
            "peak_memory_bytes": peak_memory(partial(train_step, system, largest, device), device),
            "time_ratio": {baseline: ratio},
        }
    return {"all": section}


def tables(report: Mapping[str, Any]) -> list[str]:
    section, how = report["sections"]["epochs"]["all"], report["settings"]
    systems = section["systems"]
    baseline = next(iter(systems))
    stock = systems[baseline]["peak_memory_bytes"]
    rows = [
        [
            f"`{name}`",
            f"{figures['tokens_per_second']:,.0f}",
            speed(figures["time_ratio"][baseline]["rounds"]),
            f"{1 / figures['time_ratio'][baseline]['whole']:.2f}",
            f"{figures['cpu_seconds']:.1f}",
            f"{figures['peak_memory_bytes'] / MIB:,.0f} ({figures['peak_memory_bytes'] / stock:.2f})",
            f"{figures['last_loss']:.3f}",
        ]
        for name, figures in systems.items()
    ]
    header = ["system", "words/s", f"× {baseline}", "whole", "CPU, s", f"peak MiB (/ {baseline})", "loss"]
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
