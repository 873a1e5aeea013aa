"""The element-wise part of an LSTM step.

    i, f, o = sigmoid(gates_i), sigmoid(gates_f), sigmoid(gates_o);   g = tanh(gates_g)
    c = f * c_prev + i * g;   h = o * tanh(c)

(Hochreiter and Schmidhuber 1997, "Long Short-Term Memory", with the forget gates of Gers et al. 2000).
``torch.nn.LSTMCell`` combines this with two matrix products. A decoder with input feeding computes the products itself
(:mod:`fairseq_attn_plugin.modules.recurrence`) and calls this function for the element-wise part.

A GPU has torch's own fused cell (:func:`fused_lstm_cell`), one kernel in each pass.
"""

from __future__ import annotations

from typing import Tuple

import torch
from torch import Tensor

from ..devices import on_gpu
from ..exporting import exporting
from ..precision import without_autocast

__all__ = ["CLOSED", "fused_lstm_cell", "has_fused_cell", "lstm_cell"]

# The pre-activation of a closed gate: its sigmoid is exactly 0, and that of its negative, of an open gate, exactly 1.
CLOSED = -1e4


def lstm_cell(gates: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor]:
    """One LSTM step from its pre-activations.

    Args:
        gates: ``[..., 4 * H]``, pre-activations in torch's order: input, forget, cell, output; in any precision
        cell: ``[..., H]``, the previous cell state

    Returns:
        hidden and cell state, ``[..., H]`` each, in the type of ``cell``, as is all arithmetic
    """
    i, f, g, o = gates.to(cell.dtype).split(int(gates.size(-1)) // 4, dim=-1)
    cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(cell), cell


def has_fused_cell(like: Tensor) -> bool:
    """Whether :func:`fused_lstm_cell` takes tensors like this one: torch has it for GPUs."""
    return on_gpu(like) and not exporting()


def fused_lstm_cell(gates: Tensor, others: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor]:
    """:func:`lstm_cell` of ``gates + others``, ``[R, 4 * H]`` each."""
    with without_autocast(cell):  # cell states would lose digits at every step
        hidden, new_cell, _ = torch.ops.aten._thnn_fused_lstm_cell(gates.to(cell.dtype), others.to(cell.dtype), cell)
    return hidden, new_cell
