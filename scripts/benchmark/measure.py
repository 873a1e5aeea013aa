"""Measurements of the benchmark: interleaved timing, ratios, peak memory, a description of the machine, and tables.

The speed of a machine varies with other programs and with its temperature, for all systems at once. Therefore the
systems take turns, and the report has medians over rounds of the ratio of two times of the same round.
"""

import gc
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Dict

import fairseq
import torch

from fairseq_attn_plugin.analysis.pages.document import markdown_table

MIB = float(1 << 20)
Sample = Dict[str, float]


class Clock:
    """Wall-clock and processor seconds since its making; waits for the GPU first."""

    def __init__(self, device: torch.device):
        self.device = device
        self.began = self._now()

    def _now(self) -> Sample:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return {"wall": time.perf_counter(), "cpu": time.process_time()}

    def seconds(self) -> Sample:
        return {name: now - self.began[name] for name, now in self._now().items()}


def interleave(
    runs: Mapping[str, Callable[[], Sample]],
    rounds: int,
    warmup: int,
    tick: Callable[[str], Any] = lambda name: None,
) -> dict[str, list[Sample]]:
    """Runs every system once per round; returns the samples of each system, one per round.

    Each round starts with another system, so that no system is always first. The first ``warmup`` rounds are not
    counted. Python's garbage is collected between the runs, so that no run includes its time.
    """
    names = list(runs)
    samples: dict[str, list[Sample]] = {name: [] for name in names}
    gc.collect()
    gc.freeze()  # keeps the collections below short
    gc.disable()
    try:
        for turn in range(-warmup, rounds):
            shift = turn % len(names)
            for name in names[shift:] + names[:shift]:
                tick(name)
                sample = runs[name]()
                gc.collect()
                if turn >= 0:
                    samples[name].append(sample)
    finally:
        gc.enable()
        gc.unfreeze()
    return samples


def round_ratios(over: Sequence[Sample], under: Sequence[Sample], key: str) -> list[float]:
    """Time of ``over`` divided by time of ``under``, round by round."""
    if len(over) != len(under):
        raise ValueError(f"{len(over)} rounds of one system against {len(under)} of the other")
    return [a[key] / b[key] for a, b in zip(over, under)]


def sum_of(samples: Sequence[Sample]) -> Sample:
    return {part: sum(sample[part] for sample in samples) for part in samples[0]}


def summary(values: Sequence[float]) -> dict[str, float]:
    """Median and extremes; the extremes show the noise of the machine."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def speed(time_ratios: Sequence[float]) -> str:
    """Times faster: median, and lowest and highest round."""
    return "{median:.2f} ({min:.2f}–{max:.2f})".format(**summary([1 / ratio for ratio in time_ratios]))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table: first column left, the others right."""
    return markdown_table(header, rows, "l" + "r" * (len(header) - 1))


def peak_memory(run: Callable[[], Any], device: torch.device) -> int:
    """Peak memory of ``run`` in bytes, in addition to the memory that was allocated before.

    On a GPU this is the high-water mark of torch's allocator. On the CPU the profiler records every allocation and
    release of torch's allocator, and the result is the maximum of their running sum. It is exact for tensors. It
    does not include work space of libraries (oneDNN, MKL) and does not depend on the rest of the process.
    """
    gc.collect()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        before = torch.cuda.memory_allocated(device)
        torch.cuda.reset_peak_memory_stats(device)
        run()
        torch.cuda.synchronize(device)
        return torch.cuda.max_memory_allocated(device) - before
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True) as profile:
        kept = run()  # the result of run counts until the end, as for a caller
    del kept
    results = profile.profiler.kineto_results
    changes = [(event.start_ns(), event.nbytes()) for event in results.events() if event.name() == "[memory]"]
    held = peak = 0
    for _, change in sorted(changes, key=lambda pair: pair[0]):
        held += change
        peak = max(peak, held)
    return peak


def environment(device: torch.device) -> dict[str, Any]:
    """Machine and versions, on which the figures depend."""
    return {
        "device": str(device),
        "device_name": torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name(),
        "cpus": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "fairseq": fairseq.__version__,
        "cuda": torch.version.cuda,
        "platform": platform.platform(terse=True),
    }


def cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
