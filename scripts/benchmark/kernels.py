"""Rates of the machine: matrix products in every precision, copies, exponentials."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch.nn.functional import linear

from benchmark.measure import Clock

# Of each precision of a model, the kernels that it may use: a faster one of a higher precision serves as well.
FLOAT32 = ("float32", "float32 packed")
BFLOAT16 = (*FLOAT32, "bfloat16", "bfloat16 packed")
KERNELS: Mapping[str, tuple[str, ...]] = {"float32": FLOAT32, "bfloat16": BFLOAT16, "int8": (*BFLOAT16, "int8")}


def seconds_of(run: Callable[[], Any], device: torch.device, clock: str, least: float, repeats: int) -> float:
    """The shortest mean time of one call in ``repeats`` series of at least ``least`` seconds."""
    run()  # the first call compiles and packs
    calls, best = 1, float("inf")
    for _ in range(repeats):
        while True:
            watch = Clock(device)
            for _ in range(calls):
                run()
            seconds = watch.lap()[clock]
            if seconds >= least:
                break
            calls = calls * 2 if seconds < least / 8 else int(calls * 1.3 * least / seconds) + 1
        best = min(best, seconds / calls)
    return best


def products(rows: int, inputs: int, outputs: int, device: torch.device) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The kernels of this machine that compute ``[rows, inputs] x [inputs, outputs] + [outputs]``.

    A kernel that torch or the processor lacks is left out. *packed*: oneDNN with a weight that is laid out once for it.
    *int8*: weights in int8, inputs quantised in the call, as torch's dynamic quantisation does.
    """
    draw = torch.Generator().manual_seed(1)
    whole = [torch.randn(*shape, generator=draw).to(device) for shape in ((rows, inputs), (outputs, inputs))]
    bias = torch.zeros(outputs, device=device)
    for dtype, name in ((torch.float32, "float32"), (torch.bfloat16, "bfloat16")):
        x, weight = (tensor.to(dtype) for tensor in whole)
        offset = bias.to(dtype)
        yield name, lambda x=x, weight=weight, offset=offset: linear(x, weight, offset)
        if device.type == "cpu":
            try:
                packed = torch.ops.mkldnn._reorder_linear_weight(weight, rows)
                packed_linear = torch.ops.mkldnn._linear_pointwise
                packed_linear(x, packed, offset, "none", [], "")
            except (AttributeError, RuntimeError, NotImplementedError):
                continue
            yield (
                f"{name} packed",
                lambda x=x, w=packed, b=offset, run=packed_linear: run(x, w, b, "none", [], ""),
            )
    if device.type == "cpu":
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # torch announces the successors of its quantisation
                scale = float(whole[1].abs().max()) / 127
                quantized = torch.quantize_per_tensor(whole[1], scale, 0, torch.qint8)
                packed = torch.ops.quantized.linear_prepack(quantized, bias)
        except (AttributeError, RuntimeError, NotImplementedError):
            return
        yield "int8", lambda: torch.ops.quantized.linear_dynamic(whole[0], packed, True)


@torch.no_grad()
def product_seconds(
    rows: int, inputs: int, outputs: int, device: torch.device, clock: str, least: float, repeats: int = 3
) -> dict[str, float]:
    """Seconds of one product by kernel."""
    return {
        name: seconds_of(run, device, clock, least, repeats) for name, run in products(rows, inputs, outputs, device)
    }


@torch.no_grad()
def other_rates(device: torch.device, clock: str, least: float, size: int) -> dict[str, float]:
    """Bytes copied (read and written) in a second, for ``size`` float32 numbers, and their exponentials in a second."""
    one = torch.randn(size, device=device)
    other = torch.empty_like(one)
    copied = seconds_of(lambda: other.copy_(one), device, clock, least, 3)
    raised = seconds_of(lambda: torch.exp(one, out=other), device, clock, least, 3)
    return {"bytes": 2 * one.element_size() * size / copied, "exponentials": size / raised}
