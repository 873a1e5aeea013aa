"""The forward algorithm of first-order alignments, in log space.

The alignment z_t of a word depends on that of the word before (Vogel, Ney and Tillmann 1996; Wu and Cotterell 2019):

    p(y) = sum_z prod_t p(z_t | z_{t-1}) p(y_t | z_t),     p(z_t = j | z_{t-1} = i) = softmax_j(u_tj + v_ij)

u_tj is the content potential of position j at step t, v_ij that of the jump from i to j; the first word jumps from in
front of the source. With the filter a_t(j) = p(z_t = j | y_1..t)

    b_t(j) = sum_i a_{t-1}(i) p(z_t = j | z_{t-1} = i)      prediction, p(z_t = j | y_<t)
    p(y_t | y_<t) = sum_j b_t(j) p(y_t | z_t = j),          a_t(j) = b_t(j) p(y_t | z_t = j) / p(y_t | y_<t)

Time is O(T N^2), exact for any number of alignments. Monotonic alignments have v_ij = ``LOG_ZERO`` for j < i, so that
p(z_t | z_{t-1}) is renormalised over the positions from i on.

Shapes: B sentences, N source positions, T steps.
"""

from typing import List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

LOG_ZERO = -1e4  # log of a probability of zero; finite, so that gradients are


class JumpChain(NamedTuple):
    """The potentials of the jumps."""

    start: Tensor  # [B, N], to the first word's alignment
    jumps: Tensor  # [N, N], v, from the row to the column


def jump_chain(table: Tensor, pad_mask: Tensor, monotonic: bool = False) -> JumpChain:
    """The potentials of all jumps, from those of the jump widths.

    Args:
        table: ``[2 W + 1]``, of the widths -W to W; greater ones count as W
        pad_mask: ``[B, N]``, True on padding, on one side of each sentence
        monotonic: whether jumps back have no probability
    """
    window, size = len(table) // 2, pad_mask.size(1)
    positions = torch.arange(size, device=table.device)
    widths = positions - positions.unsqueeze(1)
    jumps = table[widths.clamp(-window, window) + window]
    if monotonic:
        jumps = jumps.masked_fill(widths < 0, LOG_ZERO)
    first = (~pad_mask).cumsum(1).clamp(1, window)  # the width from in front of the sentence
    return JumpChain(table[first + window], jumps)


def predicted(chain: JumpChain, content: Tensor, past: Optional[Tensor]) -> Tensor:
    """log b_t ``[B, N]``.

    Args:
        content: ``[B, N]``, u_t; ``LOG_ZERO`` on padding
        past: ``[B, N]``, log a_{t-1}; None at the first step
    """
    if past is None:
        return (content + chain.start).log_softmax(-1)
    joint = content.unsqueeze(1) + chain.jumps
    return (past.unsqueeze(2) + joint.log_softmax(-1)).logsumexp(1)


def filtered(prediction: Tensor, emission: Tensor) -> Tuple[Tensor, Tensor]:
    """log a_t ``[B, N]`` and log p(y_t | y_<t) ``[B]`` from log b_t and log p(y_t | z_t = j) ``[B, N]``."""
    joint = prediction + emission
    likelihood = joint.logsumexp(-1)
    return joint - likelihood.unsqueeze(-1), likelihood


def forward_algorithm(chain: JumpChain, content: Tensor, emissions: Tensor) -> Tuple[Tensor, Tensor]:
    """Runs over whole sentences.

    Args:
        content: ``[B, T, N]``, u
        emissions: ``[B, T, N]``, log p(y_t | z_t = j); zero where a sentence has no word

    Returns:
        log b ``[B, T, N]``, and log p(y_t | y_<t) ``[B, T]``, which is zero where a sentence has no word
    """
    past: Optional[Tensor] = None
    predictions: List[Tensor] = []
    likelihoods: List[Tensor] = []
    for u, emission in zip(content.unbind(1), emissions.unbind(1)):
        predictions.append(predicted(chain, u, past))
        past, likelihood = filtered(predictions[-1], emission)
        likelihoods.append(likelihood)
    return torch.stack(predictions, 1), torch.stack(likelihoods, 1)


def posteriors(chain: JumpChain, content: Tensor, emissions: Tensor) -> Tensor:
    """p(z_t = j | y), given the whole sentence: ``[B, T, N]``, the derivative of log p(y) by log p(y_t | z_t = j)."""
    with torch.enable_grad():
        leaf = emissions.detach().requires_grad_()
        _, likelihoods = forward_algorithm(JumpChain(*(part.detach() for part in chain)), content.detach(), leaf)
        (found,) = torch.autograd.grad(likelihoods.sum(), leaf)
    return found
