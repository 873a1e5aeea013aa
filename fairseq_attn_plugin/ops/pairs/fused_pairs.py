"""Sums over pairs of positions, each by one kernel that torch.compile makes for a GPU.

For vectors x_1..x_N of one sentence let L_jk = tanh(x_j + x_k) and T_p the Chebyshev polynomials. The sums are

    S_pk = sum_{j != k} T_p(L_jk),   p = 1..P

over the real positions j. A kernel reads x, forms the values of its pairs in registers and writes the sums: the N^2 D
values of the pairs never reach the memory, which the operations of :mod:`.all_pairs` read and write about thirty times.
With T_p' = p U_{p-1} and d L / d (x_j + x_k) = 1 - L^2 the backward pass is one sum as well,

    dx_k = sum_{j != k} (1 - L_jk^2) sum_p p U_{p-1}(L_jk) (dS_pj + dS_pk),

the inner sum by Clenshaw's recurrence.

Compiling takes seconds. Only the training steps that ``--cuda-graphs`` captures ask for it (:func:`compiling`).
:func:`sums_of_pairs` also serves graphs of other programs.
"""

from __future__ import annotations

import contextlib
import logging
from functools import lru_cache
from typing import Any, Callable, Iterator, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ...errors import first_cause

__all__ = ["compiling", "fused_sums", "fuses", "sums_of_pairs", "words_in"]

logger = logging.getLogger(__name__)

_state = {"wanted": False, "broken": False}


@contextlib.contextmanager
def compiling() -> Iterator[None]:
    """Sums over pairs of tensors on a GPU are compiled in this context."""
    _state["wanted"] = True
    try:
        yield
    finally:
        _state["wanted"] = False


def fuses(x: Tensor) -> bool:
    """Whether sums over pairs of ``x`` are to be compiled."""
    return _state["wanted"] and not _state["broken"] and x.device.type == "cuda"


def fused_sums(x: Tensor, degree: int, pad_mask: Optional[Tensor] = None) -> Tensor:
    """S_pk for p = 1..degree.

    Args:
        x: ``[B, N, D]``; half precision is summed in float32
        degree: P
        pad_mask: ``[B, N]``, True on padding, which adds nothing and receives zeros

    Returns:
        ``[B, N, P, D]``
    """
    sums: Tensor = _Sums.apply(x, words_in(x, pad_mask), degree)
    return sums


def words_in(x: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """``[B, N]``, False on padding."""
    return x.new_ones(x.shape[:2], dtype=torch.bool) if pad_mask is None else ~pad_mask


class _Sums(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, real: Tensor, degree: int) -> Tensor:
        ctx.save_for_backward(x, real)
        return _run(sums_of_pairs, _wide(x), real, degree).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None, None]:
        x, real = ctx.saved_tensors
        return _run(gradient_of_pairs, _wide(x), real, _wide(grad)).to(x.dtype), None, None


def _wide(x: Tensor) -> Tensor:
    return x if x.dtype == torch.float64 else x.float()


def _run(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """``function``, compiled where that is asked for and works."""
    if fuses(inputs[0]):
        try:
            return _compiled(function)(*inputs)
        except Exception as problem:  # no compiler for C, no Triton, ...: many types
            _state["broken"] = True
            logger.warning(f"sums over pairs cannot be compiled ({first_cause(problem)}); they go on without")
    return function(*inputs)


@lru_cache(maxsize=None)
def _compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    from torch._inductor import config

    # Above these numbers of operations and of readers a value would be written to memory, and read again by others.
    limits = ("realize_opcount_threshold", "realize_reads_threshold", "realize_acc_reads_threshold")
    options = {name: 10_000 for name in limits if hasattr(config, name)}
    return torch.compile(function, dynamic=True, options=options)  # type: ignore[no-any-return]


def sums_of_pairs(x: Tensor, real: Tensor, degree: int) -> Tensor:
    """S_pk ``[B, N, P, D]`` from ``x`` ``[B, N, D]``; ``real`` ``[B, N]`` is False on padding."""
    counted, values = _counted(real), torch.tanh(x.unsqueeze(2) + x.unsqueeze(1))
    previous, current, sums = torch.ones_like(values), values, []
    for _ in range(degree):
        sums.append(torch.where(counted, current, 0.0).sum(2))
        previous, current = current, 2 * values * current - previous
    return torch.stack(sums, dim=2)


def gradient_of_pairs(x: Tensor, real: Tensor, grad: Tensor) -> Tensor:
    """dx ``[B, N, D]`` from dS ``[B, N, P, D]``."""
    counted, values = _counted(real), torch.tanh(x.unsqueeze(2) + x.unsqueeze(1))
    later, latest = torch.zeros_like(values), torch.zeros_like(values)
    for p in range(grad.size(2), 0, -1):
        of_pair = grad[:, :, None, p - 1] + grad[:, None, :, p - 1]
        later, latest = latest, p * of_pair + 2 * values * latest - later
    return torch.where(counted, (1 - values * values) * latest, 0.0).sum(2)


def _counted(real: Tensor) -> Tensor:
    """The pairs (k, j) of different words, ``[B, N, N, 1]``."""
    numbers = torch.arange(real.size(1), device=real.device)
    return (real.unsqueeze(2) & real.unsqueeze(1) & (numbers.unsqueeze(1) != numbers)).unsqueeze(-1)
