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

There are two exact ways to compute the marginals, chosen by shape and device. One is this recursion over positions,
with a few operations on all chains per position and a hand-written backward pass:

    d V_j / d V_j-1 = sigmoid(V_j-1 + k) - sigmoid(V_j-1 - k),    d L / d k = sigmoid(V + k) + sigmoid(V - k) - 1,

which is a linear recurrence against the direction of the messages. The other enumerates. In terms of A and k

    p(z) ~ exp( sum_j A_j z_j + k #{j: z_j = z_j-1} ),

where z_0 is one more variable without a field, which changes nothing. Groups of five neighbours have 64 labelings
with the variable before them, and one matrix product gives the log-potentials of all. logsumexp over the labelings
with the same first and last variable makes each group a link of a shorter chain. Groups of links follow, until one
enumeration has the whole chain. The way back multiplies probabilities: of both ends of a link, and of the labelings
given these ends. A chain of 40 takes a dozen operations.
"""

from typing import Any, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .devices import constant, exporting, on_gpu, scripted, zeros_of
from .precision import kept_in_pass, without_autocast


def chain_log_marginals(potentials: Tensor, transitions: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
    """log p(z_j = 1) at every position of every chain.

    Args:
        potentials: ``[..., N]``, x_j of z_j = 1 (that of z_j = 0 is 0), N >= 1; ignored on padding
        transitions: ``[2, 2]``, t[from, to]
        pad_mask: broadcasts to ``[..., N]``, True on padding, which lies before or after the words, not among them

    Returns:
        ``[..., N]`` in float32, or float64 for such potentials; meaningless on padding
    """
    dtype = torch.float64 if potentials.dtype == torch.float64 else torch.float32

    def fields_by(shift: Tensor) -> Tensor:
        fields = potentials + shift
        return fields if pad_mask is None else fields.masked_fill(pad_mask, 0.0)

    # without autocast: log-odds in half precision are too inexact
    with without_autocast(potentials):
        if exporting():
            coupling, shift = _coupling_and_shift(transitions.to(dtype))
            return F.logsigmoid(_plain(fields_by(shift), coupling))
        chain = kept_in_pass(transitions, _chain)
        if _enumerates(potentials):
            fields = fields_by(chain.shift)
            bounded = _Bounded.apply(fields, chain.lowest)
            shares = _enumeration(bounded.reshape(-1, bounded.size(-1)), chain.couplings).view(fields.shape)
            return _Logs.apply(shares, (fields - bounded).detach(), dtype)
        fields = fields_by(chain.shift.to(dtype))
        odds = _ChainLogOdds.apply(fields.reshape(-1, fields.size(-1)), chain.coupling.to(dtype))
        return F.logsigmoid(odds).view(fields.shape)


class _Chain(NamedTuple):
    """What depends on the transitions alone, in float64."""

    coupling: Tensor  # k
    shift: Tensor  # [1], t11 - t00
    couplings: Tensor  # [64], k times the number of equal neighbours in each labeling of a group
    lowest: Tensor  # log p(z_j = 1) falls as fast as a field below this, to the last digit


def _chain(transitions: Tensor) -> _Chain:
    coupling, shift = _coupling_and_shift(transitions.double())
    couplings = coupling * _labelings(_GROUP, transitions.device).equal
    return _Chain(coupling, shift, couplings, -_highest(coupling.detach()))


def _coupling_and_shift(transitions: Tensor) -> Tuple[Tensor, Tensor]:
    """k ``[]`` and t11 - t00 ``[1]``."""
    (t00, t01), (t10, t11) = (row.unbind() for row in transitions.unbind())
    return 0.5 * (t00 + t11 - t01 - t10), (t11 - t00).view(1)


def _highest(coupling: Tensor) -> Tensor:
    """Beyond this log-odds L is +-k to the last digit. Without the limit large fields would cancel all its digits."""
    return 40.0 + 2.0 * coupling.abs()


def _enumerates(potentials: Tensor) -> bool:
    """Whether an enumeration pays for chains ``[..., N]``."""
    # Launches cost time on a GPU: 4 N in the recursion, 11 in an enumeration of up to 40 positions. On a processor the
    # elements cost time too, and an enumeration has 13 times as many: it pays off for few chains only.
    return on_gpu(potentials) or potentials.numel() <= 30 * potentials.size(-1)


# ---- enumeration

_GROUP = 5  # positions, or groups, of a group
_LAST = 8  # the most links of a chain that is enumerated as a whole


class _Labelings(NamedTuple):
    """The labelings z_0 .. z_G of G links, sorted by (z_0, z_G), as numbers in float64."""

    ones: Tensor  # [2^(G+1), G], z_1 .. z_G
    equal: Tensor  # [2^(G+1)], the number of links with equal ends
    links: Tensor  # [2^(G+1), 4 G], which of 00, 01, 10, 11 each link is
    tiny: Tensor  # [], so that no share is zero


@constant
def _labelings(size: int, device: torch.device) -> _Labelings:
    inner = [[number >> place & 1 for place in range(size - 1)] for number in range(2 ** (size - 1))]
    z = torch.tensor([[first, *rest, last] for first in (0, 1) for last in (0, 1) for rest in inner], device=device)
    before, after = z[:, :-1], z[:, 1:]
    links = F.one_hot(2 * before + after, 4).flatten(1)
    tiny = torch.full((), 1e-200, dtype=torch.float64, device=device)
    return _Labelings(after.double(), (before == after).sum(1).double(), links.double(), tiny)


def _enumeration(fields: Tensor, couplings: Tensor) -> Tensor:
    """p(z_j = 1) of fields ``[R, N]``.

    In float64, where sums of five large fields keep their digits, products are never TF32, and 1e-200 is a number.
    """
    ones = _labelings(_GROUP, fields.device).ones
    potentials = F.linear(_groups(fields), ones, couplings)
    return (_shares(potentials) @ ones).flatten(1)[:, : fields.size(1)]


def _groups(x: Tensor) -> Tensor:
    """``[R, N, ...]`` to ``[R, M, 5, ...]``, with zeros up to a multiple of a group."""
    missing = -x.size(1) % _GROUP
    if missing:
        x = torch.cat([x, zeros_of(x, x.size(0), missing, *x.shape[2:])], dim=1)
    return x.unflatten(1, (-1, _GROUP))


def _shares(potentials: Tensor) -> Tensor:
    """The probabilities of the labelings of M groups, ``[R, M, 64]`` like their log-potentials."""
    links, given_ends = _SumsAndShares.apply(potentials.unflatten(2, (4, -1)))
    tiny = _labelings(_GROUP, potentials.device).tiny
    return torch.addcmul(tiny, _link_shares(links).unsqueeze(3), given_ends).flatten(2)


def _link_shares(links: Tensor) -> Tensor:
    """The probabilities of both ends of every link of chains, ``[R, M, 4]`` like the links' log-potentials."""
    size = links.size(1)
    if size <= _LAST:
        table = _labelings(size, links.device).links
        return ((links.flatten(1) @ table.t()).softmax(-1) @ table).view(links.shape)
    table = _labelings(_GROUP, links.device).links
    shares = _shares(_groups(links).flatten(2) @ table.t()) @ table
    return shares.unflatten(2, (_GROUP, 4)).flatten(1, 2)[:, :size]


class _Bounded(Function):
    """Fields of at least ``lowest``. There log p(z_j = 1) has the slope 1 by its field and 0 by others, as below."""

    @staticmethod
    def forward(ctx: Any, fields: Tensor, lowest: Tensor) -> Tensor:
        return fields.clamp(min=lowest)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None]:
        return grad, None


class _Logs(Function):
    """log x + y, in another type; y has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.save_for_backward(x)
        return torch.add(x.log(), y, out=torch.empty_like(y, dtype=dtype))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None, None]:
        (x,) = ctx.saved_tensors
        return grad / x, None, None


class _SumsAndShares(Function):
    """``logsumexp(-1)`` and ``softmax(-1)``, together a few operations."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tuple[Tensor, Tensor]:
        logs = x.log_softmax(-1)
        shares = logs.exp()
        ctx.save_for_backward(shares)
        return x[..., 0] - logs[..., 0], shares

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_sums: Tensor, d_shares: Tensor) -> Tensor:
        (shares,) = ctx.saved_tensors
        within = torch._softmax_backward_data(d_shares, shares, -1, shares.dtype)
        return within.addcmul_(shares, d_sums.unsqueeze(-1))


# ---- recursion


class _ChainLogOdds(Function):
    """Fields ``[R, N]`` and the coupling to log p(z_j = 1) / p(z_j = 0), ``[R, N]``.

    Inside, positions come first, and both directions lie side by side, the second one reversed: ``[N, 2, R]``.
    """

    @staticmethod
    def forward(ctx: Any, fields: Tensor, coupling: Tensor) -> Tensor:
        highest = _highest(coupling)
        shifts = torch.stack([coupling, -coupling]).view(2, 1, 1)
        bounded = _both_ways(fields.clamp(-highest, highest).t())
        odds, messages = _recursion(bounded, coupling, shifts)
        ctx.save_for_backward(odds, shifts)
        return (fields.t() + messages[:, 0] + messages[:, 1].flip(0)).t()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, Tensor]:
        odds, shifts = ctx.saved_tensors
        rising, falling = torch.sigmoid(odds + shifts.unsqueeze(1)).unbind()
        slopes = rising - falling  # of each message by the one before
        grad = grad.t()
        sums = _both_ways(grad)  # of the loss by message j; later messages are added below
        for j in range(len(sums) - 2, -1, -1):
            torch.addcmul(sums[j], slopes[j], sums[j + 1], out=sums[j])
        # V_j reaches the loss through message j + 1 alone, by what was added to sums[j]
        d_fields = sums[:, 0] + sums[:, 1].flip(0) - grad
        d_coupling = ((rising + falling - 1)[:-1] * sums[1:]).sum()
        return d_fields.t(), d_coupling


def _both_ways(x: Tensor) -> Tensor:
    """``[N, R]`` and, beside it, its reverse: ``[N, 2, R]``."""
    return torch.stack([x, x.flip(0)], dim=1)


def _recursion(fields: Tensor, coupling: Tensor, shifts: Tensor) -> Tuple[Tensor, Tensor]:
    """V and the message L(V of the position before) at every position, ``[N, 2, R]`` each."""
    odds, messages = torch.empty_like(fields), torch.empty_like(fields)
    odds[0], messages[0] = fields[0], 0.0
    shifted = fields - coupling  # L's last term, for all positions at once
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
    messages[1:] -= coupling
    return odds, messages


# ---- export


def _plain(fields: Tensor, coupling: Tensor) -> Tensor:
    """The log-odds ``[..., N]`` by plain operations, for graphs of another program."""
    limit = _highest(coupling)
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
