"""Marginals of a chain of binary variables, the two-state linear-chain CRF of structured attention.

z_1 .. z_N are 0 or 1. With unary potentials x_j and transition potentials t[from, to]

    p(z) ~ exp( sum_j x_j z_j + sum_j t[z_j, z_j+1] + mean_a t[a, z_1] + mean_b t[z_N, b] )

(Kim, Denton, Hoang and Rush 2017, "Structured Attention Networks"; the last two terms are their potentials of start and
end). These two terms give every variable the same share of the transitions on both sides. The distribution then depends
on the four transition potentials through two numbers only,

    A_j = x_j + t11 - t00   (the field),      k = (t00 + t11 - t01 - t10) / 2   (the coupling),

as in an Ising chain with free ends. A message along the chain is one number, the log-odds V that the positions on one
side give to z_j = 1:

    V_j = A_j + L(V_j-1),     L(V) = log( (1 + e^(V + k)) / (e^k + e^V) ) = softplus(V + k) - softplus(V - k) - k,

with V_0 = 0, and the same from the other side; log p(z_j = 1) / p(z_j = 0) = A_j + L(V from left) + L(V from right).
Because L(0) = 0, a padding position has the field 0 and sends no message, on either side of the sentence.

There are two ways to compute all V, chosen by shape and device: a recursion over positions, with a few operations on
all chains per position, and a scan of depth log2(N) over the compositions of L, which are two-by-two matrices (Möbius
maps of e^V) in log space. Both are exact, in float32 or better, and share a hand-written backward pass:

    d V_j / d V_j-1 = sigmoid(V_j-1 + k) - sigmoid(V_j-1 - k),    d L / d k = sigmoid(V + k) + sigmoid(V - k) - 1,

which is a linear recurrence against the direction of the messages.
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .devices import constant, exporting, scripted
from .precision import kept_in_pass, without_autocast


def chain_log_odds(potentials: Tensor, transitions: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
    """log p(z_j = 1) / p(z_j = 0) at every position of every chain; its sigmoid is the marginal.

    Args:
        potentials: ``[..., N]``, x_j of z_j = 1 (that of z_j = 0 is 0), N >= 1; ignored on padding
        transitions: ``[2, 2]``, t[from, to]
        pad_mask: broadcasts to ``[..., N]``, True on padding, which lies before or after the words, not among them

    Returns:
        ``[..., N]`` in float32, or float64 for such potentials; meaningless on padding
    """
    dtype = torch.float64 if potentials.dtype == torch.float64 else torch.float32
    # without autocast: log-odds in half precision are too inexact
    with without_autocast(potentials):
        chain = kept_in_pass(transitions, functools.partial(_chain, dtype=dtype))
        fields = potentials.to(dtype) + chain.shift
        if pad_mask is not None:
            fields = fields.masked_fill(pad_mask, 0.0)
        if exporting():
            return _plain(fields, chain.coupling)
        flat = fields.reshape(-1, fields.size(-1))
        return _ChainLogOdds.apply(flat, chain.coupling, chain, _scans(flat)).view(fields.shape)


class _Chain(NamedTuple):
    """What depends on the transitions alone; all but ``coupling`` and ``shift`` without gradients."""

    coupling: Tensor  # k
    shift: Tensor  # t11 - t00
    lowest: Tensor  # fields are limited to [lowest, highest]
    highest: Tensor
    shifts: Tensor  # [k, -k]
    closed: Tensor  # the map of the field 0, [2, 2]
    top: Tensor  # [1, 0], the rows of a map to which the field is added


def _chain(transitions: Tensor, dtype: torch.dtype) -> _Chain:
    (t00, t01), (t10, t11) = (row.unbind() for row in transitions.to(dtype).unbind())
    coupling = 0.5 * (t00 + t11 - t01 - t10)
    with torch.no_grad():
        # Beyond this limit L is +-k to the last digit. Without the limit large fields would cancel all its digits.
        highest = 40.0 + 2.0 * coupling.abs()
        zero = torch.zeros_like(coupling)
        closed = torch.stack([coupling, zero, zero, coupling]).view(2, 2)
        shifts = torch.stack([coupling, -coupling])
        top = torch.arange(1, -1, -1, dtype=dtype, device=transitions.device)
    return _Chain(coupling, t11 - t00, -highest, highest, shifts, closed, top)


def _scans(fields: Tensor) -> bool:
    """Whether a scan pays for chains ``[R, N]``."""
    # Launches cost time on a GPU: 4 N in the recursion, about 8 log2(N) in the scan. On a processor the elements cost
    # time too, and the scan has log2(N) times as many: it pays off for few chains only.
    rows, size = fields.shape
    few = fields.device.type != "cpu" or rows <= 40
    return few and size > 16


class _ChainLogOdds(Function):
    """Fields ``[R, N]`` and the coupling to log-odds ``[R, N]``.

    Inside, positions come first, and both directions lie side by side, the second one reversed: ``[N, 2, R]``.
    """

    @staticmethod
    def forward(ctx: Any, fields: Tensor, coupling: Tensor, chain: _Chain, scan: bool) -> Tensor:
        bounded = _both_ways(fields.clamp(chain.lowest, chain.highest).t())
        odds, messages = (_scan if scan else _recursion)(bounded, chain)
        ctx.save_for_backward(odds, chain.shifts)
        ctx.scan = scan
        return (fields.t() + messages[:, 0] + messages[:, 1].flip(0)).t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, Tensor, None, None]:
        odds, shifts = ctx.saved_tensors
        rising, falling = torch.sigmoid(odds + shifts[:, None, None, None]).unbind()
        slopes = rising - falling  # of each message by the one before
        grad = grad.t()
        sums = _both_ways(grad)  # of the loss by message j; later messages are added below
        if ctx.scan:
            sums = _linear_scan(sums, slopes)
        else:
            for j in range(len(sums) - 2, -1, -1):
                torch.addcmul(sums[j], slopes[j], sums[j + 1], out=sums[j])
        # V_j reaches the loss through message j + 1 alone, by what was added to sums[j]
        d_fields = sums[:, 0] + sums[:, 1].flip(0) - grad
        d_coupling = ((rising + falling - 1)[:-1] * sums[1:]).sum()
        return d_fields.t(), d_coupling, None, None


def _both_ways(x: Tensor) -> Tensor:
    """``[N, R]`` and, beside it, its reverse: ``[N, 2, R]``."""
    return x.index_select(0, _places(len(x), x.device)).view(len(x), 2, x.size(1))


@constant
def _places(size: int, device: torch.device) -> Tensor:
    steps = torch.arange(size, device=device)
    return torch.stack([steps, steps.flip(0)], dim=1).flatten()


def _recursion(fields: Tensor, chain: _Chain) -> Tuple[Tensor, Tensor]:
    """V and the message L(V of the position before) at every position, ``[N, 2, R]`` each, one position at a time."""
    odds, messages = torch.empty_like(fields), torch.empty_like(fields)
    odds[0], messages[0] = fields[0], 0.0
    shifted = fields - chain.coupling  # L's last term, for all positions at once
    shifts = chain.shifts[:, None, None]
    zero = fields.new_zeros(())
    pair = fields.new_empty(2, *fields.shape[1:])
    rising, falling = pair.unbind()
    before = odds[0]
    for after, message, field in zip(odds[1:].unbind(), messages[1:].unbind(), shifted[1:].unbind()):
        torch.add(before, shifts, out=pair)
        torch.logaddexp(pair, zero, out=pair)
        torch.sub(rising, falling, out=message)
        torch.add(message, field, out=after)
        before = after
    messages[1:] -= chain.coupling
    return odds, messages


def _scan(fields: Tensor, chain: _Chain) -> Tuple[Tensor, Tensor]:
    """The results of :func:`_recursion`, by composing the steps.

    V -> A + L(V) is the map e^V -> (a e^V + b) / (c e^V + d) with log a = k + A, log b = A, log c = 0, log d = k. Maps
    compose as their matrices multiply.
    """
    maps = torch.addcmul(chain.closed[..., None, None, None], chain.top[:, None, None, None, None], fields)
    reach = 1  # maps[..., j, :, :] composes the steps j - reach + 1 .. j
    while reach < len(fields):
        pairs = (maps[:, :, reach:].unsqueeze(2) + maps[:, :, :-reach]).unbind(1)
        later = maps[:, :, reach:]
        # A common factor does not change a map. Without this the logarithms grow with the length and lose precision.
        if 4 <= reach < len(fields) / 2:  # but not in the last round, nor in the first two
            joined = torch.logaddexp(*pairs)
            torch.sub(joined, joined[1, 1], out=later)
        else:
            torch.logaddexp(*pairs, out=later)
        reach *= 2
    top, bottom = torch.logaddexp(maps[:, 0], maps[:, 1]).unbind()  # at V_0 = 0
    odds = top - bottom
    return odds, odds - fields


def _linear_scan(sums: Tensor, slopes: Tensor) -> Tensor:
    """S_j + slope_j (S_j+1 + slope_j+1 (S_j+2 + ...)) of every j along the first dimension, in log2(N) steps."""
    reach = 1
    while reach < len(sums):
        sums = torch.cat([torch.addcmul(sums[:-reach], slopes[: len(sums) - reach], sums[reach:]), sums[-reach:]])
        if 2 * reach < len(sums):
            slopes = slopes[:-reach] * slopes[reach:]
        reach *= 2
    return sums


def _plain(fields: Tensor, coupling: Tensor) -> Tensor:
    """The log-odds ``[..., N]`` of fields A ``[..., N]``, 0 on padding, and the coupling k by plain operations, for
    graphs of another program."""
    limit = 40.0 + 2.0 * coupling.abs()  # beyond it a message is +-k to the last digit
    bounded = torch.minimum(torch.maximum(fields, -limit), limit)
    both = torch.stack([bounded, bounded.flip(-1)])
    zero = torch.zeros_like(both)
    maps = torch.stack([torch.stack([both + coupling, both]), torch.stack([zero, zero + coupling])])
    composed = (scripted(_plain_scan) if torch.jit.is_tracing() else _plain_scan)(maps)
    top, bottom = (torch.logsumexp(row, dim=0) for row in composed.unbind(0))  # at V_0 = 0
    odds = top - bottom
    messages = F.softplus(odds + coupling) - F.softplus(odds - coupling) - coupling
    from_left, from_right = F.pad(messages[..., :-1], (1, 0)).unbind(0)  # of the positions before
    return fields + from_left + from_right.flip(-1)


def _plain_scan(maps: Tensor) -> Tensor:
    """The compositions of the maps ``[2, 2, ..., N]`` up to every position, in log2(N) steps."""
    size = maps.size(-1)
    reach = 1
    while reach < size:
        later, earlier = maps[..., reach:], maps[..., : size - reach]
        one, other = later[:, :1] + earlier[:1], later[:, 1:] + earlier[1:]
        # log(e^one + e^other) without overflow
        joined = torch.maximum(one, other) + F.softplus(-(one - other).abs())
        maps = torch.cat([maps[..., :reach], joined - joined[1:, 1:]], dim=-1)
        reach = 2 * reach
    return maps
