"""Sums over pairs of positions, on a processor and on a GPU: :mod:`.all_pairs`, or one compiled kernel.

:mod:`.all_pairs` has the definitions, and forms the N^2 pairs in blocks. Captured training steps of a GPU
(``--cuda-graphs``, which asks by :func:`compiling`) have one kernel of torch.compile: it reads x, forms the values of
its pairs L_jk = tanh(x_j + x_k) in registers and writes the sums of the Chebyshev polynomials

    S_pk = sum_{j != k} T_p(L_jk),   p = 1..P

The N^2 D values of the pairs never reach the memory, which the operations of :mod:`.all_pairs` read and write about
thirty times. With T_p' = p U_{p-1} and d L / d (x_j + x_k) = 1 - L^2 the backward pass is one sum as well,

    dx_k = sum_{j != k} (1 - L_jk^2) sum_p p U_{p-1}(L_jk) (dS_pj + dS_pk),

the inner sum by Clenshaw's recurrence. Compiling takes seconds. :func:`sums_of_pairs` also serves graphs of other
programs.
"""

import contextlib
import logging
from functools import lru_cache
from typing import Any, Callable, Iterator, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ...errors import first_cause
from ..devices import exporting
from ..precision import in_full, without_autocast
from .all_pairs import cosine_matrix, sum_pairs

logger = logging.getLogger(__name__)

_state = {"wanted": False, "broken": False}


def pooled_tanh(x: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
    """g_k = sum_{j != k} tanh(x_j + x_k) over the real positions of each sentence.

    Args:
        x: ``[B, N, D]``; half precision is summed in float32
        pad_mask: ``[B, N]``, True on padding, which adds nothing and receives zeros

    Returns:
        ``[B, N, D]``
    """
    sums = _by_one_expression(x, 1, pad_mask)
    return sum_pairs(x, pad_mask) if sums is None else sums.squeeze(2)


def pooled_basis(x: Tensor, count: int, pad_mask: Optional[Tensor] = None) -> Tensor:
    """G_mk = sum_{j != k} l_m(tanh(x_j + x_k)), m = 1..count, over the real positions.

    For every function f that is smooth on [-1, 1], sum_{j != k} f(L_jk) is close to sum_m f(x_m) G_mk.

    Returns:
        ``[B, N, count, D]``; arguments as for :func:`pooled_tanh`
    """
    sums = _by_one_expression(x, max(1, count - 1), pad_mask)
    if sums is None:
        return sum_pairs(x, pad_mask, count)
    real = words_in(x, pad_mask).to(x.dtype)
    others = (real.sum(1, keepdim=True) - 1) * real  # T_0 = 1
    sums = torch.cat([others[:, :, None, None].expand_as(sums[:, :, :1]), sums], dim=2)[:, :, :count]
    with without_autocast(sums):
        return torch.matmul(cosine_matrix(count, sums.dtype, sums.device), sums)


def _by_one_expression(x: Tensor, degree: int, pad_mask: Optional[Tensor]) -> Optional[Tensor]:
    """The sums of T_1..T_degree over all pairs at once, for a graph of another program and for a compiled kernel; None
    otherwise."""
    if exporting():
        return sums_of_pairs(x, words_in(x, pad_mask), degree)
    return _Sums.apply(x, words_in(x, pad_mask), degree) if fuses(x) else None


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


def words_in(x: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """``[B, N]``, False on padding."""
    return x.new_ones(x.shape[:2], dtype=torch.bool) if pad_mask is None else ~pad_mask


class _Sums(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, real: Tensor, degree: int) -> Tensor:
        ctx.save_for_backward(x, real)
        return _run(sums_of_pairs, in_full(x), real, degree).to(x.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None, None]:
        x, real = ctx.saved_tensors
        return _run(gradient_of_pairs, in_full(x), real, in_full(grad)).to(x.dtype), None, None


def _run(function: Callable[..., Tensor], *inputs: Any) -> Tensor:
    """``function``, compiled where that is asked for and works."""
    if _state["wanted"] and not _state["broken"]:
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
    return torch.compile(function, dynamic=True, options=options)


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
