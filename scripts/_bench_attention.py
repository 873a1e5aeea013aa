"""Attention alone: the sections ``aqt`` (pooled against direct pairing) and ``memory`` of the benchmark."""

from __future__ import annotations

from typing import Any, Callable, Mapping, Sequence

import torch
from _bench_measure import Clock, Sample, growth_exponent, interleave, peak_memory, round_ratios, summary

from fairseq_attn_plugin.attention import build_attention

Tick = Callable[[str], Any]


def attention_inputs(batch: int, positions: int, steps: int, width: int, seed: int, device: torch.device):
    """Random encodings (bounded, as an LSTM's are), no padding, queries, gradients of the contexts."""
    draw = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return (2 * torch.rand(*shape, generator=draw) - 1).to(device)

    mask = torch.zeros(batch, positions, dtype=torch.bool, device=device)
    return uniform(batch, positions, width), mask, uniform(batch, steps, width), uniform(batch, steps, width)


def attend(attention: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Attention forward and backward; returns what a user could see of both: outputs and all gradients."""
    encodings, mask, query, gradient = inputs
    encodings, query = encodings.detach().requires_grad_(), query.detach().requires_grad_()
    memory = attention.precompute(encodings, mask)
    out = attention.step(query, memory, attention.initial_state(memory))
    named = dict(attention.named_parameters())
    wanted = {"encodings": encodings, "query": query, **named}
    gradients = torch.autograd.grad((out.context * gradient).sum(), list(wanted.values()), allow_unused=True)
    seen = {"scores": out.scores, "weights": out.weights, "context": out.context}
    seen.update({f"d {name}": g for name, g in zip(wanted, gradients) if g is not None})
    return {name: tensor.detach() for name, tensor in seen.items()}


def relative_difference(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Largest absolute difference over the largest absolute value of the reference."""
    scale = reference.abs().max().clamp_min(torch.finfo(reference.dtype).tiny)
    return float((value - reference).abs().max() / scale)


def aqt_section(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    """``aqt`` pooled on Chebyshev nodes against the direct O(T N^2 D) sum: time and agreement.

    Same parameters and inputs, forward and backward.
    """
    positions, batch, width = settings["aqt_positions"], settings["aqt_batch"], settings["attention_width"]
    inputs = attention_inputs(batch, positions, positions, width, settings["seed"], device)
    torch.manual_seed(settings["seed"])
    pooled = build_attention("aqt", query_dim=width, memory_dim=width, pairing="pooled").to(device)
    direct = build_attention("aqt", query_dim=width, memory_dim=width, pairing="direct").to(device)
    direct.load_state_dict(pooled.state_dict())
    results: dict[str, dict[str, torch.Tensor]] = {}

    def timed(name: str, attention: torch.nn.Module) -> Sample:
        clock = Clock(device)
        results[name] = attend(attention, inputs)
        return clock.lap()

    raw = interleave(
        {"pooled": lambda: timed("pooled", pooled), "direct": lambda: timed("direct", direct)},
        settings["aqt_rounds"],
        0,
        lambda name: tick(f"aqt {name}"),
    )
    differences = {
        name: relative_difference(results["pooled"][name], ref) for name, ref in results["direct"].items()
    }
    clock = settings["clock"]
    ratios = round_ratios(raw["direct"], raw["pooled"], clock)
    return {
        "positions": positions,
        "steps": positions,
        "batch": batch,
        "width": width,
        "raw": raw,
        "seconds": {name: summary([sample[clock] for sample in raw[name]]) for name in raw},
        "speedup": {**summary(ratios), "rounds": ratios},
        "relative_difference": differences,
        "max_relative_difference": max(differences.values()),
    }


def memory_section(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    """Peak memory of attention, forward and backward, against the number of source positions."""
    width, steps, lengths = settings["attention_width"], settings["memory_steps"], settings["memory_lengths"]
    section: dict[str, Any] = {
        "positions": lengths,
        "steps": steps,
        "batch": 1,
        "width": width,
        "mechanisms": {},
    }
    for name in settings["mechanisms"]:
        torch.manual_seed(settings["seed"])
        attention = build_attention(name, query_dim=width, memory_dim=width).to(device)
        peaks = []
        for positions in lengths:
            tick(f"memory {name} N={positions}")
            inputs = attention_inputs(1, positions, steps, width, settings["seed"], device)
            peaks.append(peak_memory(lambda a=attention, i=inputs: attend(a, i), device))
        section["mechanisms"][name] = {
            "peak_memory_bytes": peaks,
            "exponent": growth_exponent(lengths, peaks),
        }
    return section
