"""What a GPU does in a training step: its kernels, the waits of the host, and the share of the time that it works.

torch.profiler sees the kernels; the time of a step is taken without it, because it slows the host down. On the
processor there are no kernels, and the share is zero.
"""

import time
from collections.abc import Callable, Iterable
from typing import Any

import torch
from benchmark.systems import System
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity

WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")  # of the host; cudaDeviceSynchronize is this module's own


def update(system: System, batch: dict[str, Any]) -> None:
    """One update as in fairseq's trainer, without a wait of its own."""
    loss, sample_size, _ = system.criterion(system.model, batch)
    loss.backward()
    system.update(sample_size)


def work_of(step: Callable[[], Any], device: torch.device, steps: int = 5) -> dict[str, float]:
    """Of one call of ``step``: number of kernels, copies and waits; seconds, seconds of kernels, and the busy share."""

    def run(times: int) -> float:
        began = time.perf_counter()
        for _ in range(times):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - began

    run(3)
    seconds = run(steps) / steps
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    with torch.profiler.profile(activities=activities) as profiler:
        run(1)
    events = profiler.events()
    on_host = [event.name for event in events if event.device_type == DeviceType.CPU]
    named = set(on_host)  # regions that the host has named come back as events of the GPU
    ran = [event for event in events if event.device_type != DeviceType.CPU and event.name not in named]
    copies = sum(event.name.startswith(("Memcpy", "Memset")) for event in ran)
    worked = 1e-6 * covered((event.time_range.start, event.time_range.end) for event in ran)
    return {
        "kernels": len(ran) - copies,
        "copies": copies,
        "waits": sum(name in WAITS for name in on_host),
        "seconds": seconds,
        "kernel_seconds": worked,
        "busy": worked / seconds,
    }


def covered(intervals: Iterable[tuple[float, float]]) -> float:
    """Length of the union of intervals: kernels of several streams run at the same time."""
    total, reached = 0.0, float("-inf")
    for start, end in sorted(intervals):
        total += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return total
