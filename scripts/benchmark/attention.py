"""Attention alone, forward and backward, and the section ``aqt`` of the benchmark: pooled against direct pairing."""

from __future__ import annotations

import math
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence

import torch

from benchmark.measure import Clock, Sample, interleave, round_ratios, summary
from fairseq_attn_plugin.attention import build_attention

Tick = Callable[[str], Any]
FIRST_WORD = 4  # after the special symbols
OUTPUTS = ("scores", "weights", "context")
DIRECT_SLICE = 1  # queries of direct pairing at a time: the B x N x N x D values of one query exceed every cache


def attention_inputs(batch: int, positions: int, steps: int, width: int, seed: int, device: torch.device):
    """Random encodings (bounded, as an LSTM's are), no padding, queries, gradients of the contexts."""
    draw = torch.Generator().manual_seed(seed)

    def uniform(*shape: int) -> torch.Tensor:
        return (2 * torch.rand(*shape, generator=draw) - 1).to(device)

    mask = torch.zeros(batch, positions, dtype=torch.bool, device=device)
    return uniform(batch, positions, width), mask, uniform(batch, steps, width), uniform(batch, steps, width)


def attend(
    attention: torch.nn.Module, given: Sequence[torch.Tensor], slice_size: Optional[int] = None
) -> dict[str, torch.Tensor]:
    """Runs attention forward and backward; returns the outputs and all gradients.

    A mechanism that uses words gets words without a table. With ``slice_size`` so many queries are taken at a time;
    each slice's backward pass follows at once and stops at the memory, whose summed gradient goes through
    ``precompute`` at the end. The result is the same where all queries together would not fit.
    """
    encodings, mask, query, gradient = given
    encodings, query = encodings.detach().requires_grad_(), query.detach().requires_grad_()
    attention.zero_grad()
    positions = torch.arange(query.size(1), device=query.device).expand(query.shape[:2])
    source, inputs = ({}, {})
    if attention.needs_words:
        source, inputs = {"source_tokens": mask.long() + FIRST_WORD}, {"inputs": positions + FIRST_WORD}
    memory = attention.precompute(encodings, mask, **source)
    if slice_size is None:
        outputs = [attention.step(query, memory, attention.initial_state(memory), positions, **inputs)]
        (outputs[0].context * gradient).sum().backward()
    else:
        cut = [_leaf(tensor) for tensor in memory]
        held = type(memory)(*cut)
        outputs = []
        for part, part_gradient in zip(query.split(slice_size, 1), gradient.split(slice_size, 1)):
            out = attention.step(part, held, attention.initial_state(held))
            (out.context * part_gradient).sum().backward()
            outputs.append(type(out)(out.context.detach(), out.weights.detach(), out.scores.detach(), None))
        ends = [(whole, leaf.grad) for whole, leaf in zip(memory, cut) if leaf is not whole and leaf.grad is not None]
        torch.autograd.backward([whole for whole, _ in ends], [grad for _, grad in ends])
    seen = {name: torch.cat([getattr(out, name).detach() for out in outputs], 1) for name in OUTPUTS}
    wanted = {"encodings": encodings, "query": query, **dict(attention.named_parameters())}
    seen.update({f"d {name}": tensor.grad for name, tensor in wanted.items() if tensor.grad is not None})
    return seen


def _leaf(tensor: Optional[torch.Tensor]) -> Optional[torch.Tensor]:
    return tensor.detach().requires_grad_() if tensor is not None and tensor.requires_grad else tensor


def relative_difference(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Largest absolute difference over the largest absolute value of the reference; NaN with a NaN."""
    scale = reference.abs().max().clamp_min(torch.finfo(reference.dtype).tiny)
    return float((value - reference).abs().max() / scale)


def _worst(differences: Iterable[float]) -> float:
    """The largest difference; NaN counts as larger than any number."""
    return max(differences, key=lambda value: math.inf if math.isnan(value) else value)


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

    def timed(name: str, attention: torch.nn.Module, slice_size: Optional[int] = None) -> Sample:
        clock = Clock(device)
        results[name] = attend(attention, inputs, slice_size)
        return clock.lap()

    raw = interleave(
        {"pooled": lambda: timed("pooled", pooled), "direct": lambda: timed("direct", direct, DIRECT_SLICE)},
        settings["aqt_rounds"],
        0,
        lambda name: tick(f"aqt {name}"),
    )
    differences = {name: relative_difference(results["pooled"][name], ref) for name, ref in results["direct"].items()}
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
        "max_relative_difference": _worst(differences.values()),
    }
