"""Where a reader that only goes forward stops (Raffel, Luong, Liu, Weiss and Eck 2017, "Online and Linear-Time
Attention by Enforcing Monotonic Alignments").

At each step it goes on from where the last step stopped, and stops at word j with probability p_j. With the
probabilities a'_j of where the last step stopped,

    a_j = p_j r_j,     r_j = (1 - p_{j-1}) r_{j-1} + a'_j          r_j: it reaches word j

r is a linear recurrence with factors in [0, 1]. A scan composes its steps x -> f x + b in log2(N) rounds: parallel, and
exact without logarithms or divisions, also at p = 0 and p = 1 (the quotient of cumulative sums and products in the
paper divides by products that underflow). With p in {0, 1} and a' one-hot, a is one-hot: the hard reader.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from .devices import exporting, scripted


def monotonic_step(stop: Tensor, go_on: Tensor, last: Tensor) -> Tensor:
    """The probabilities of the module's text.

    Args:
        stop: p ``[..., N]``; 0 on padding
        go_on: 1 - p, in the precision of p where that is close to one; 1 on padding
        last: a' ``[..., N]``

    Returns:
        a ``[..., N]``
    """
    factor = F.pad(go_on[..., :-1], (1, 0), value=1.0)
    scan = scripted(_scan) if torch.jit.is_tracing() else _scan
    return stop * scan(factor, last.expand_as(factor))


def _scan(factor: Tensor, added: Tensor) -> Tensor:
    """r_j = factor_j r_{j-1} + added_j, with r before the first position zero."""
    size, reach = factor.size(-1), 1
    while reach < size:
        later, earlier = factor[..., reach:], size - reach
        added = torch.cat([added[..., :reach], added[..., reach:] + later * added[..., :earlier]], -1)
        factor = torch.cat([factor[..., :reach], later * factor[..., :earlier]], -1)
        reach = 2 * reach
    return added


def chunk_weights(stops: Tensor, energies: Tensor, size: int) -> Tensor:
    """The weights of soft attention to the ``size`` words up to where the reader stops (Chiu and Raffel 2018,
    "Monotonic Chunkwise Attention").

        b_j = sum_k a_k softmax(u_{k-size+1}, ..., u_k)_j

    Args:
        stops: a ``[..., N]``
        energies: u ``[..., N]``; very negative on padding, which gets no weight where a is zero
        size: of a chunk

    Returns:
        b ``[..., N]``
    """
    # [..., N, size]: the chunk that ends at each position. Nothing is before the first one.
    total = energies.size(-1)
    size = size if exporting() else min(size, total)
    padded = F.pad(energies, (size - 1, 0), value=torch.finfo(energies.dtype).min)
    chunks = torch.stack([padded[..., shift : shift + total] for shift in range(size)], -1).softmax(-1)
    shares = stops.unsqueeze(-1) * chunks
    # the word at place i of the chunk that ends at k is k - size + 1 + i
    result = torch.zeros_like(stops)
    for place in range(size):
        back = size - 1 - place
        result = result + F.pad(shares[..., place], (0, back))[..., back:]
    return result
