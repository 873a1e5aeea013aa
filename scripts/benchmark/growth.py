"""Time and memory by size: the section ``growth`` of the benchmark.

Attention alone, forward and backward, by the number of source positions, and the memory of a training step by the size
of the vocabulary. What would take too long or too much memory is left out, which the report says.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Optional

import torch

from benchmark.attention import attend, attention_inputs
from benchmark.measure import Clock, growth_exponent, peak_memory
from benchmark.options import number_list, positive
from benchmark.sections import Tick, train_step
from benchmark.systems import MemoryTask, Sizes, Spec, System, literal, make_batch
from benchmark.tables import MIB, table
from benchmark.targets import SOFT, SOFT_FAST, STOCK
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.attention.registry import names

LENGTHS = (100, 300, 1000, 3000, 10000)
VOCABULARIES = (8000, 20000, 50000, 100000)
SYSTEMS = (STOCK, SOFT, SOFT_FAST)
REPEATS = 3
STEPS = 10
SHARE = 0.7  # of the free memory that a measurement may take
QUICK = {
    "growth_lengths": [16, 32],
    "growth_vocabularies": [60, 120],
    "growth_archs": [STOCK, SOFT],
    "growth_seconds": 5.0,
}


def add_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument_group("growth").add_argument
    add(
        "--growth-mechanisms",
        nargs="*",
        metavar="ATTENTION[:opt=value,...]",
        default=names(),
        help=f"mechanisms of the growth section ({' '.join(names())})",
    )
    add("--growth-lengths", type=number_list, default=list(LENGTHS), help=f"their N ({','.join(map(str, LENGTHS))})")
    add(
        "--growth-archs",
        nargs="*",
        metavar="ARCH[:opt=value,...]",
        default=list(SYSTEMS),
        help=f"systems of the growth section ({' '.join(SYSTEMS)})",
    )
    add(
        "--growth-vocabularies",
        type=number_list,
        default=list(VOCABULARIES),
        help=f"their V ({','.join(map(str, VOCABULARIES))})",
    )
    add("--growth-seconds", type=float, default=60.0, help="longest run of attention that is tried (60)")
    add("--growth-steps", type=positive, default=STEPS, help=f"decoder steps of attention alone ({STEPS})")


def turns(settings: Mapping[str, Any]) -> int:
    return len(settings["growth_mechanisms"]) * len(settings["growth_lengths"]) + len(settings["growth_archs"]) * len(
        settings["growth_vocabularies"]
    )


def measure(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    return {
        "growth": {
            "attention": {
                "positions": settings["growth_lengths"],
                "steps": settings["growth_steps"],
                "width": settings["attention_width"],
                "mechanisms": {
                    text: _mechanism(text, settings, device, tick) for text in settings["growth_mechanisms"]
                },
            },
            "vocabulary": {
                "sizes": settings["growth_vocabularies"],
                "tokens": settings["tokens"],
                "systems": {
                    str(spec): _vocabularies(spec, settings, device, tick)
                    for spec in map(Spec.parse, settings["growth_archs"])
                },
            },
        }
    }


def _mechanism(text: str, settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    """Seconds and peak bytes for every number of positions; None for those that were left out."""
    width, steps, lengths = settings["attention_width"], settings["growth_steps"], settings["growth_lengths"]
    spec = Spec.parse(text)
    options = {name: literal(value) for name, value in spec.options}
    torch.manual_seed(settings["seed"])
    attention = build_attention(spec.arch, query_dim=width, memory_dim=width, **options).to(device)
    seconds: list[float] = []
    peaks: list[float] = []
    for number, positions in enumerate(lengths):
        tick(f"growth {text} N={positions}")
        if number > 1 and (
            _next(lengths, seconds) > settings["growth_seconds"] or _next(lengths, peaks) > SHARE * free_memory(device)
        ):
            break
        inputs = attention_inputs(1, positions, steps, width, settings["seed"], device)
        peaks.append(peak_memory(lambda inputs=inputs: attend(attention, inputs), device))
        times = []
        for _ in range(REPEATS):
            clock = Clock(device)
            attend(attention, inputs)
            times.append(clock.lap()[settings["clock"]])
        seconds.append(statistics.median(times))
    done = lengths[: len(seconds)]
    missing = [None] * (len(lengths) - len(done))
    return {
        "seconds": [*seconds, *missing],
        "peak_memory_bytes": [*peaks, *missing],
        # of the longest, where what every run needs no longer counts
        "time growth": growth_exponent(done[-2:], seconds[-2:]),
        "memory growth": growth_exponent(done[-2:], peaks[-2:]),
    }


def _next(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The value at the next size, if it goes on growing as it did last."""
    last = len(values) - 1
    power = max(1.0, growth_exponent(sizes[last - 1 : last + 1], values[-2:]))
    return values[-1] * (sizes[last + 1] / sizes[last]) ** power


def free_memory(device: torch.device) -> int:
    """Bytes that are free on the device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # not Linux
        return 1 << 33


def _vocabularies(spec: Spec, settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    """Peak bytes of a training step for every vocabulary; None for those that were left out."""
    sizes = Sizes(**settings["sizes"])
    length = settings["lengths"][len(settings["lengths"]) // 2]
    peaks: list[Optional[int]] = []
    for vocab in settings["growth_vocabularies"]:
        tick(f"growth {spec} V={vocab}")
        # three tables with gradients and two moments, and several copies of the logits
        expected = 4 * vocab * (3 * 4 * sizes.embed + 5 * settings["tokens"])
        if expected > SHARE * free_memory(device):
            peaks.append(None)
            continue
        task = MemoryTask(vocab)
        own_sizes = Sizes(vocab, sizes.embed, sizes.hidden, sizes.layers, sizes.dropout)
        system = System(spec, own_sizes, task, device, settings["seed"], settings["optimizer"])
        batch = make_batch(task, length, settings["tokens"], settings["seed"], device)
        train_step(system, batch, device)  # makes the moments of the optimizer
        peaks.append(peak_memory(lambda system=system, batch=batch: train_step(system, batch, device), device))
    return {"peak_memory_bytes": peaks}


def tables(report: Mapping[str, Any]) -> list[str]:
    section = report["sections"]["growth"]
    attention, vocabulary = section["attention"], section["vocabulary"]
    rows = [
        [
            f"`{name}`",
            *(
                "left out" if seconds is None else f"{1e3 * seconds:,.1f} / {peak / MIB:,.1f}"
                for seconds, peak in zip(figures["seconds"], figures["peak_memory_bytes"])
            ),
            f"{figures['time growth']:.2f} / {figures['memory growth']:.2f}",
        ]
        for name, figures in attention["mechanisms"].items()
    ]
    parts = [
        "## Growth with the source",
        f"Attention alone, forward and backward, B = 1, T = {attention['steps']}, D = {attention['width']}: "
        "milliseconds / peak MiB, and the exponents of N between the two longest. *Left out*: would take more than "
        f"{report['settings']['growth_seconds']:g} s, or more memory than is free.",
        table(["mechanism", *(f"N={n:,}" for n in attention["positions"]), "~ N^"], rows),
    ]
    rows = [
        [f"`{name}`", *("left out" if peak is None else f"{peak / MIB:,.0f}" for peak in figures["peak_memory_bytes"])]
        for name, figures in vocabulary["systems"].items()
    ]
    return [
        *parts,
        "## Growth with the vocabulary",
        f"Peak MiB of a training step of {vocabulary['tokens']:,} tokens, without parameters and moments.",
        table(["system", *(f"V={v:,}" for v in vocabulary["sizes"])], rows),
    ]
