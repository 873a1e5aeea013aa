"""What differs between a processor, a GPU, and a graph that is recorded for another program."""

import functools
import math
import warnings
from typing import Any, Callable, TypeVar

import torch
from torch import Tensor

F = TypeVar("F", bound=Callable[..., object])


def on_gpu(x: Tensor) -> bool:
    """Whether a tensor is on a device that runs beside the host. The host then has to wait for a number of the tensor
    (``bool``, ``item``) or for a shape that depends on its numbers (``nonzero``), and every operation costs a launch.
    """
    return x.device.type != "cpu"


def constant(function: F) -> F:
    """Decorates a function of sizes, types and devices that makes tensors: each is made once, and nobody writes to it.

    A GPU then does not wait for its copy at every step. Tensors are made outside of inference mode, because autograd
    could not save them otherwise, and stay, because a CUDA graph may read them.
    """
    return functools.lru_cache(maxsize=None)(torch.inference_mode(False)(function))  # type: ignore[return-value]


def constant_on_gpu(function: Callable[[int, torch.device], Tensor]) -> Callable[[int, torch.device], Tensor]:
    """Decorates a function of a size and a device: a :func:`constant` on a GPU, and a tensor of each call elsewhere,
    where a graph that is recorded for another program needs the size as a variable."""
    kept = constant(function)
    return lambda size, device: (function if device.type == "cpu" else kept)(size, device)


def zeros_of(like: Tensor, *shape: int) -> Tensor:
    """Zeros of the type and device of ``like`` that nobody writes to; on a GPU without a launch."""
    if not on_gpu(like):
        return like.new_zeros(shape)
    size = math.prod(shape)
    return _zeros(1 << max(size - 1, 0).bit_length(), like.dtype, like.device)[:size].view(shape)  # few sizes are kept


@constant
def _zeros(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros(size, dtype=dtype, device=device)


def end_capture() -> None:
    """After a CUDA graph whose capture has failed: in some versions of torch the generators of random numbers would go
    on to expect a capture, and fail without one."""
    for generator in torch.cuda.default_generators:
        generator.graphsafe_set_state(generator.clone_state())


@functools.lru_cache(maxsize=None)
def scripted(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` in a form whose number of rounds stays a variable of an exported graph."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated, for what cannot record this loop
        return torch.jit.script(function)


def exporting() -> bool:
    """Whether ``torch.onnx.export`` or ``torch.jit.trace`` is recording.

    Functions with a hand-written backward pass, and functions that choose by the values or sizes of a batch, then take
    a plain form: operations that every size of batch and sentence has in common.
    """
    return torch.onnx.is_in_onnx_export() or torch.jit.is_tracing()
