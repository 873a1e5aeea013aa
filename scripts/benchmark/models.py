"""Whole models: the sections ``train`` and ``decode`` of the benchmark."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Callable

import torch
from benchmark.measure import MIB, Clock, Sample, interleave, peak_memory, round_ratios, speed, summary, table
from benchmark.systems import System, make_batch

Tick = Callable[[str], Any]


def train_step(system: System, batch: dict[str, Any], device: torch.device) -> Sample:
    """One update as in fairseq's trainer; returns its seconds, and the loss per word in nats."""
    clock = Clock(device)
    loss, sample_size, _ = system.criterion(system.model, batch)
    loss.backward()
    system.update(sample_size)
    sample = clock.seconds()
    return {**sample, "loss": float(loss.detach()) / float(sample_size)}


def decode(system: System, batch: dict[str, Any], beam: int, steps: int, device: torch.device) -> Sample:
    """Beam search of one batch; every hypothesis has ``steps`` words."""
    generator = system.generator(beam, steps)
    clock = Clock(device)
    hypotheses = generator.generate([system.decoding_model], batch)
    sample = clock.seconds()
    if any(len(sentence[0]["tokens"]) != steps + 1 for sentence in hypotheses):
        raise AssertionError(f"{system.spec} did not decode {steps} words and an end of sentence everywhere")
    return sample


def measure(
    path: str, systems: Mapping[str, System], settings: Mapping[str, Any], device: torch.device, tick: Tick
) -> dict[str, Any]:
    """Training steps (``path`` train) or beam search (decode) at every source length, by all systems in turn.

    A batch has as many words at every length. A translation has as many words as the longest source.
    """
    section, clock = {}, settings["clock"]
    for length in settings["lengths"]:
        tokens = settings["tokens" if path == "train" else "decode_tokens"]
        batch = make_batch(next(iter(systems.values())).task, length, tokens, settings["seed"], device)
        sentences = int(batch["net_input"]["src_tokens"].size(0))
        words = int(batch["ntokens"]) if path == "train" else sentences * (length + 1)

        def work(system: System, batch: dict[str, Any] = batch, length: int = length) -> Sample:
            if path == "train":
                return train_step(system, batch, device)
            return decode(system, batch, settings["beam"], length, device)

        raw = interleave(
            {name: partial(work, system) for name, system in systems.items()},
            settings["rounds"],
            settings["warmup"],
            lambda name, length=length: tick(f"{path} N={length} {name}"),
        )
        figures: dict[str, Any] = {}
        for name, system in systems.items():
            seconds = summary([sample[clock] for sample in raw[name]])
            figures[name] = {
                "seconds": seconds,
                "sentences_per_second": sentences / seconds["median"],
                "tokens_per_second": words / seconds["median"],
                "peak_memory_bytes": peak_memory(partial(work, system), device),
                "time_ratio": {},
            }
            for base in filter(systems.__contains__, settings["baselines"]):
                ratios = round_ratios(raw[name], raw[base], clock)
                figures[name]["time_ratio"][base] = {**summary(ratios), "rounds": ratios}
        section[str(length)] = {"sentences": sentences, "target_tokens": words, "raw": raw, "systems": figures}
    return section


def table_of(section: Mapping[str, Any], baselines: Sequence[str]) -> str:
    present = [b for b in baselines if any(b in measured["systems"] for measured in section.values())]
    rows = [
        [
            f"N={length}",
            f"`{name}`",
            f"{figures['seconds']['median']:.3f}",
            f"{figures['tokens_per_second']:,.0f}",
            f"{figures['sentences_per_second']:,.1f}",
            f"{figures['peak_memory_bytes'] / MIB:,.0f}",
            *(speed(figures["time_ratio"][base]["rounds"]) for base in present),
        ]
        for length, measured in section.items()
        for name, figures in measured["systems"].items()
    ]
    header = ["length", "system", "s", "tokens/s", "sentences/s", "peak MiB", *(f"× {base}" for base in present)]
    return table(header, rows)
