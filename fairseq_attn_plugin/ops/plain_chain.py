"""The log-odds of :mod:`fairseq_attn_plugin.ops.chain_crf` by plain operations, for graphs of another program."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["plain_chain_log_odds"]


def plain_chain_log_odds(fields: Tensor, coupling: Tensor) -> Tensor:
    """log p(z_j = 1) / p(z_j = 0) of every position.

    Args:
        fields: A_j, ``[..., N]``; 0 on padding
        coupling: k, a scalar

    Returns:
        ``[..., N]``
    """
    limit = 40.0 + 2.0 * coupling.abs()  # beyond it a message is +-k to the last digit
    bounded = torch.minimum(torch.maximum(fields, -limit), limit)
    from_left, from_right = _messages(torch.stack([bounded, bounded.flip(-1)]), coupling).unbind(0)
    return fields + from_left + from_right.flip(-1)


@torch.jit.script
def _scan(maps: Tensor) -> Tensor:
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


def _messages(fields: Tensor, coupling: Tensor) -> Tensor:
    """The message that every position receives from the positions before it, ``[..., N]``."""
    zero = torch.zeros_like(fields)
    maps = torch.stack([torch.stack([fields + coupling, fields]), torch.stack([zero, zero + coupling])])
    top, bottom = (torch.logsumexp(row, dim=0) for row in _scan(maps).unbind(0))  # at V_0 = 0
    odds = top - bottom
    messages = F.softplus(odds + coupling) - F.softplus(odds - coupling) - coupling
    return F.pad(messages[..., :-1], (1, 0))
