"""Marginals of two-state chains: the package's routine, a plain forward-backward loop, and torch-struct."""

from __future__ import annotations

import warnings
from typing import Any, Callable, Dict, Mapping

import torch
from torch import Tensor

from benchmark.measure import Clock, Sample, interleave, round_ratios, summary
from fairseq_attn_plugin.ops.chain_crf import chain_log_odds

Tick = Callable[[str], Any]
Marginals = Callable[[Tensor, Tensor], Tensor]
OURS, LOOP, STRUCT = "chain_log_odds", "loop", "torch-struct"


def ours(potentials: Tensor, transitions: Tensor) -> Tensor:
    return torch.sigmoid(chain_log_odds(potentials, transitions))


def loop(potentials: Tensor, transitions: Tensor) -> Tensor:
    """The textbook algorithm: messages to both states in log space, one position at a time, with autograd."""
    unary = torch.stack([torch.zeros_like(potentials), potentials], dim=-1)
    size = potentials.size(1)
    forward = [unary[:, 0] + transitions.mean(dim=0)]
    for j in range(1, size):
        forward.append(unary[:, j] + torch.logsumexp(forward[-1].unsqueeze(2) + transitions, dim=1))
    backward = [transitions.mean(dim=1).expand(len(potentials), 2)]
    for j in range(size - 1, 0, -1):
        backward.append(torch.logsumexp(transitions + (unary[:, j] + backward[-1]).unsqueeze(1), dim=2))
    both = torch.stack(forward, dim=1) + torch.stack(backward[::-1], dim=1)
    return both.softmax(dim=-1)[..., 1]


def torch_struct(potentials: Tensor, transitions: Tensor) -> Tensor:
    """Marginals by torch-struct. Its chain has one potential per edge, ``[to, from]``, and fails for one position.

    A last edge, to a position with one label, carries the end potentials and gives the chain of one position an edge.
    """
    from torch_struct import LinearChainCRF

    rows, size = potentials.shape
    edges = transitions.t().expand(rows, size, 2, 2).clone()
    edges[:, :, :, 1] = edges[:, :, :, 1] + potentials.unsqueeze(-1)
    edges[:, 0] = edges[:, 0] + transitions.mean(dim=0)
    edges[:, -1] = (edges[:, -1] - transitions.t()) + transitions.mean(dim=1)
    edges[:, -1, 1] = float("-inf")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # known warnings about torch.distributions
        return LinearChainCRF(edges).marginals.sum(dim=2)[:, :, 1]


def systems() -> Dict[str, Marginals]:
    """The systems that are installed."""
    found: Dict[str, Marginals] = {OURS: ours, LOOP: loop}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch_struct as _  # noqa: F401
    except ImportError:
        return found
    return {**found, STRUCT: torch_struct}


def chain_section(settings: Mapping[str, Any], device: torch.device, tick: Tick) -> dict[str, Any]:
    """Times of all marginals, forward and backward, by number of chains and length: ``"rows x length"``."""
    section: dict[str, Any] = {}
    draw = torch.Generator().manual_seed(settings["seed"])
    for rows in settings["chain_rows"]:
        for length in settings["chain_lengths"]:
            inputs = [torch.randn(*shape, generator=draw).to(device) for shape in ((rows, length), (2, 2))]
            factors = torch.randn(rows, length, generator=draw).to(device)

            def timed(marginals: Marginals, inputs: Any = inputs, factors: Tensor = factors) -> Sample:
                leaves = [x.detach().requires_grad_() for x in inputs]
                clock = Clock(device)
                torch.autograd.grad((marginals(*leaves) * factors).sum(), leaves)
                return clock.lap()

            raw = interleave(
                {name: (lambda f=function: timed(f)) for name, function in systems().items()},
                settings["rounds"],
                max(1, settings["warmup"]),
                lambda name, rows=rows, length=length: tick(f"chain R={rows} N={length} {name}"),
            )
            clock = settings["clock"]
            section[f"{rows} x {length}"] = {
                "raw": raw,
                "seconds": {name: summary([sample[clock] for sample in raw[name]]) for name in raw},
                "time_ratio": {
                    name: {**summary(ratios), "rounds": ratios}
                    for name, ratios in ((n, round_ratios(raw[OURS], raw[n], clock)) for n in raw if n != OURS)
                },
            }
    return section
