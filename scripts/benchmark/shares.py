"""Where the time of a run goes: shares of products, element-wise operations, optimizer, loss and search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.profiler import ProfilerActivity, record_function

from benchmark.sections import OPTIMIZER

MODEL = "benchmark: model"
SHARES = ("products", "element-wise", "loss", "optimizer", "search", "Python")
PRODUCT = re.compile(
    r"^(aten|mkl|mkldnn|onednn|quantized)::(mm|addmm|addmm_|bmm|baddbmm|baddbmm_|addbmm|linear\w*|mkldnn_linear\w*|"
    r"_mkl_linear|_linear_pointwise|mkldnn_rnn_layer\w*|_cudnn_rnn\w*|qlinear\w*|_addmm_activation|"
    r"_scaled_mm|_int_mm|addmv\w*|mv)$"
)
LOSS = re.compile(r"log_softmax|logsumexp|nll|loss|_Blockwise", re.IGNORECASE)  # _Blockwise: ops/vocabulary_loss.py


@contextmanager
def model_regions(*parts: Any) -> Iterator[None]:
    """Marks the calls of the methods ``forward`` (or of functions given as ``(object, name)``) in the profile."""
    with ExitStack() as stack:
        for part in parts:
            owner, name = part if isinstance(part, tuple) else (part, "forward")
            original = getattr(owner, name)

            def marked(*args: Any, original: Callable[..., Any] = original, **kwargs: Any) -> Any:
                with record_function(MODEL):
                    return original(*args, **kwargs)

            stack.enter_context(patch.object(owner, name, marked))
        yield


def shares(run: Callable[[], Any], device: torch.device, searching: bool = False) -> dict[str, float]:
    """The share of each of :data:`SHARES` in the time of ``run``.

    ``loss`` is softmax and loss without their products, ``Python`` the time in no operation of torch. With
    ``searching`` whatever happens outside :func:`model_regions` is ``search``. The profiler itself lengthens small
    operations.
    """
    kinds = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if device.type == "cuda" else [])]
    run()
    with torch.profiler.profile(activities=kinds) as profiler, record_function("benchmark: run"):
        run()
    spent = dict.fromkeys(SHARES, 0.0)
    for event in profiler.events():
        seconds = getattr(event, "self_cpu_time_total" if device.type == "cpu" else "self_device_time_total", 0.0)
        if seconds > 0:
            spent[_share(event, searching)] += seconds
    whole = sum(spent.values())
    return {name: seconds / whole for name, seconds in spent.items()}


def _share(event: Any, searching: bool) -> str:
    above = []
    while event is not None:
        above.append(event.name)
        event = event.cpu_parent
    if OPTIMIZER in above:
        return "optimizer"
    if PRODUCT.match(above[0]):
        return "products"
    if any(LOSS.search(name) for name in above) and "::" in above[0]:
        return "loss"
    if searching and MODEL not in above:
        return "search"
    return "element-wise" if "::" in above[0] and not above[0].startswith("autograd::") else "Python"
