"""Whole models: the sections ``train`` and ``decode`` of the benchmark, and the profile of one system."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import torch

from benchmark.measure import Clock, Sample, interleave, peak_memory, round_ratios, summary
from benchmark.systems import System, make_batch

Tick = Callable[[str], Any]
OPTIMIZER = "benchmark: optimizer"  # a region of the profile


def train_step(system: System, batch: dict[str, Any], device: torch.device) -> Sample:
    """One update as in fairseq's trainer; returns its seconds in total and by phase, and the loss per word in nats.

    The phase ``update`` (gradient scaling, clipping, Adam; nothing without optimizer) is timed separately, because it
    is nearly the same work for all systems of one size.
    """
    clock, phases = Clock(device), {}
    loss, sample_size, _ = system.criterion(system.model, batch)
    phases["forward"] = clock.lap()
    loss.backward()
    phases["backward"] = clock.lap()
    with torch.profiler.record_function(OPTIMIZER):
        if system.optimizer is not None:
            system.optimizer.multiply_grads(1.0 / sample_size)
            system.optimizer.clip_grad_norm(1.0)
            system.optimizer.step()
        system.model.zero_grad()
    phases["update"] = clock.lap()
    sample = {clock_name: sum(lap[clock_name] for lap in phases.values()) for clock_name in ("wall", "cpu")}
    for phase, lap in phases.items():
        sample.update({f"{phase}_{clock_name}": seconds for clock_name, seconds in lap.items()})
    sample["loss"] = float(loss.detach()) / float(sample_size)
    return sample


def decode(system: System, batch: dict[str, Any], beam: int, steps: int, device: torch.device) -> Sample:
    """Beam search of one batch; every hypothesis has ``steps`` words."""
    generator = system.generator(beam, steps)
    clock = Clock(device)
    hypotheses = generator.generate([system.decoding_model], batch)
    sample = clock.lap()
    if any(len(sentence[0]["tokens"]) != steps + 1 for sentence in hypotheses):
        raise AssertionError(f"{system.spec} did not decode {steps} words and an end of sentence everywhere")
    return sample


def compare(
    systems: Mapping[str, System],
    work: Callable[[System, dict[str, Any]], Sample],
    batch: dict[str, Any],
    words: int,
    settings: Mapping[str, Any],
    device: torch.device,
    tick: Tick,
) -> dict[str, Any]:
    """Times ``work`` on one batch for all systems in turn, then measures the peak memory of each system."""
    raw = interleave(
        {name: (lambda system=system: work(system, batch)) for name, system in systems.items()},
        settings["rounds"],
        settings["warmup"],
        tick,
    )
    clock, sentences = settings["clock"], int(batch["net_input"]["src_tokens"].size(0))
    result: dict[str, Any] = {"sentences": sentences, "target_tokens": words, "raw": raw, "systems": {}}
    for name, system in systems.items():
        seconds = summary([sample[clock] for sample in raw[name]])
        result["systems"][name] = {
            "seconds": seconds,
            "sentences_per_second": sentences / seconds["median"],
            "tokens_per_second": words / seconds["median"],
            "peak_memory_bytes": peak_memory(lambda system=system: work(system, batch), device),
        }
    for base in filter(systems.__contains__, settings["baselines"]):
        for name in systems:
            ratios = round_ratios(raw[name], raw[base], clock)
            result["systems"][name].setdefault("time_ratio", {})[base] = {**summary(ratios), "rounds": ratios}
    return result


def train_section(systems: Mapping[str, System], settings: Mapping[str, Any], device: torch.device, tick: Tick):
    """Training steps at every source length, with a constant number of tokens per batch."""
    section = {}
    for length in settings["lengths"]:
        batch = make_batch(next(iter(systems.values())).task, length, settings["tokens"], settings["seed"], device)
        section[str(length)] = compare(
            systems,
            lambda system, batch: train_step(system, batch, device),
            batch,
            int(batch["ntokens"]),
            settings,
            device,
            lambda name, length=length: tick(f"train N={length} {name}"),
        )
    return section


def decode_section(systems: Mapping[str, System], settings: Mapping[str, Any], device: torch.device, tick: Tick):
    """Beam search at every source length; a translation has as many words as its source."""
    section = {}
    for length in settings["lengths"]:
        batch = make_batch(
            next(iter(systems.values())).task, length, settings["decode_tokens"], settings["seed"], device
        )
        section[str(length)] = compare(
            systems,
            lambda system, batch, steps=length: decode(system, batch, settings["beam"], steps, device),
            batch,
            int(batch["net_input"]["src_tokens"].size(0)) * (length + 1),
            settings,
            device,
            lambda name, length=length: tick(f"decode N={length} {name}"),
        )
    return section


def profile(
    system: System, settings: Mapping[str, Any], sections: Sequence[str], device: torch.device, rows: int
) -> str:
    """torch.profiler's tables of one system at the middle length, for the chosen sections of train and decode."""
    lengths = settings["lengths"]
    length = lengths[len(lengths) // 2]
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device.type == "cuda":
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    order = f"self_{device.type}_time_total"
    train_batch = make_batch(system.task, length, settings["tokens"], settings["seed"], device)
    decode_batch = make_batch(system.task, length, settings["decode_tokens"], settings["seed"], device)
    jobs = {
        "train": lambda: train_step(system, train_batch, device),
        "decode": lambda: decode(system, decode_batch, settings["beam"], length, device),
    }
    pages = []
    for section in filter(jobs.__contains__, sections):
        jobs[section]()
        with torch.profiler.profile(activities=kinds) as profiler:
            jobs[section]()
        table = profiler.key_averages().table(sort_by=order, row_limit=rows, max_name_column_width=45)
        pages.append(f"### {system.spec}, {section}, N = {length}\n```\n{table}\n```")
    return "\n\n".join(pages)
