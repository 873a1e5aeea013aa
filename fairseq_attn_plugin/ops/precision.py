"""The precision of matrix products, and of operations that are written by hand, under autocast and without.

Training with ``--matmul-precision bfloat16`` computes the products of float32 tensors in bfloat16. The model enters
:func:`products_in` for its forward pass. What is computed of its results elsewhere, as a criterion does, enters it with
:func:`precision_of` the model. A product notes its precision for the backward pass.
"""

import functools
import logging
import platform
import threading
from contextlib import contextmanager, nullcontext
from typing import Any, Callable, ContextManager, Dict, Iterator, Optional, TypeVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

logger = logging.getLogger(__name__)

NO_INSTRUCTIONS = "this machine has no instructions for it; products are computed in float32"
T = TypeVar("T")
# by the name that --matmul-precision gives
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}

_STATE = threading.local()


@contextmanager
def _with_state(**values: Any) -> Iterator[None]:
    """A context with these values; after it the state of this thread is that of before."""
    before = _STATE.__dict__.copy()
    _STATE.__dict__.update(values)
    try:
        yield
    finally:
        _STATE.__dict__.clear()
        _STATE.__dict__.update(before)


def products_in(precision: torch.dtype) -> ContextManager[None]:
    """A context, of this thread, in which products of float32 tensors are computed in ``precision``."""
    return _with_state(precision=precision, kept={})


def with_fixed(weights: Any) -> ContextManager[None]:
    """A context, of this thread, in which products are those of a :class:`~.packed.FixedWeights`, if it has them."""
    return _with_state(fixed=weights)


def fixed_weights() -> Any:
    """Of :func:`with_fixed`, or None."""
    return getattr(_STATE, "fixed", None)


def kept_in_pass(tensor: Tensor, function: Callable[[Tensor], T]) -> T:
    """``function(tensor)``, computed once in a context of :func:`products_in`."""
    kept: Optional[Dict[Any, Any]] = getattr(_STATE, "kept", None)
    if kept is None:
        return function(tensor)
    key = (id(tensor), torch.is_grad_enabled())
    if key not in kept:
        kept[key] = (function(tensor), tensor)  # the tensor too, so that no other takes its number
    return kept[key][0]


def recomputed(function: Callable[..., Any], *arguments: Any, draws: bool = False) -> Any:
    """``function(*arguments)``, whose activations are computed again in the backward pass instead of kept.

    Products have the precision of this call there, too, where the context of :func:`products_in` has ended. A function
    that ``draws`` random numbers draws the same ones again; the host waits for a GPU to keep the generator's state.
    """
    if not torch.is_grad_enabled():
        return function(*arguments)
    precision: torch.dtype = getattr(_STATE, "precision", torch.float32)

    def in_precision(*arguments: Any) -> Any:
        with products_in(precision):
            return function(*arguments)

    return checkpoint(in_precision, *arguments, use_reentrant=False, preserve_rng_state=draws)


def precision_of(model: nn.Module) -> torch.dtype:
    """The precision in which the products of a model, or of a wrapper for data-parallel training, are computed now: its
    own in training, float32 otherwise, and on a machine that has no instructions for its own."""
    precision: torch.dtype = getattr(getattr(model, "module", model), "matmul_precision", torch.float32)
    if precision == torch.float32 or not model.training:
        return torch.float32
    for parameter in model.parameters():  # a replica of torch's DataParallel has none
        return _of_this_machine(precision, parameter.dtype, parameter.device.type)
    return precision


@functools.lru_cache(maxsize=None)
def _of_this_machine(precision: torch.dtype, parameters: torch.dtype, device: str) -> torch.dtype:
    """``precision``, or float32 where there are no instructions for it: bfloat16 would take many times as long.

    Says once where ``--matmul-precision`` does not do what a user may expect of it.
    """
    given = f"--matmul-precision {str(precision).partition('.')[2]}:"
    if parameters != torch.float32:
        logger.warning(f"{given} has no effect, because --fp16 or --bf16 make products of {parameters}")
    elif not has_bfloat16(device):
        logger.warning(f"{given} {NO_INSTRUCTIONS}")
        return torch.float32
    return precision


def has_bfloat16(device: str) -> bool:
    """Whether devices of this type (``cpu`` or ``cuda``) have instructions for products in bfloat16."""
    if device == "cuda":  # torch.cuda.is_bf16_supported counts emulation
        return bool(torch.version.hip) or torch.cuda.get_device_capability()[0] >= 8
    if platform.machine().lower() in ("x86_64", "amd64", "i386", "i686"):
        return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
    return hasattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported") and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def in_full(x: Tensor) -> Tensor:
    """Half precision to float32; other types are unchanged."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x


def autocast_enabled(like: Tensor) -> bool:
    """Whether autocast is on for the device of a tensor."""
    return torch.is_autocast_cpu_enabled() if like.device.type == "cpu" else torch.is_autocast_enabled()


def product_type(like: Tensor) -> torch.dtype:
    """The type in which matrix products of a tensor are computed: autocast's if it is on, except for float64, or that
    of :func:`products_in` for float32."""
    if not autocast_enabled(like) or like.dtype == torch.float64:
        return getattr(_STATE, "precision", torch.float32) if like.dtype == torch.float32 else like.dtype
    return torch.get_autocast_cpu_dtype() if like.device.type == "cpu" else torch.get_autocast_gpu_dtype()


def without_autocast(like: Tensor) -> ContextManager[Any]:
    """A context in which autocast is off for the device of a tensor."""
    return torch.autocast(like.device.type, enabled=False) if autocast_enabled(like) else nullcontext()
