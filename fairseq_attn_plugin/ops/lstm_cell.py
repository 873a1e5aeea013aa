"""The element-wise part of an LSTM step, as one autograd node.

    i, f, o = sigmoid(gates_i), sigmoid(gates_f), sigmoid(gates_o);   g = tanh(gates_g)
    c = f * c_prev + i * g;   h = o * tanh(c)

(Hochreiter and Schmidhuber 1997, "Long Short-Term Memory", with the forget gates of Gers et al. 2000).
``torch.nn.LSTMCell`` combines this with two matrix products. A decoder with input feeding computes the products itself
(:mod:`fairseq_attn_plugin.modules.recurrence`) and calls this function for the element-wise part.
"""

from __future__ import annotations

from typing import Any, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .tanh import tanh_

__all__ = ["lstm_cell"]


class _LSTMCell(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor]:
        size = cell.size(-1)
        activated = torch.sigmoid(gates)
        g = activated[..., 2 * size : 3 * size]
        tanh_(g.copy_(gates[..., 2 * size : 3 * size]))
        i, f, _, o = activated.chunk(4, dim=-1)
        new_cell = torch.addcmul(f * cell, i, g)
        squashed = tanh_(new_cell.clone())
        ctx.save_for_backward(activated, cell, squashed)
        return o * squashed, new_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor, grad_cell: Tensor) -> Tuple[Tensor, Tensor]:
        activated, cell, squashed = ctx.saved_tensors
        i, f, g, o = activated.chunk(4, dim=-1)
        # d h / d c = o (1 - tanh(c)^2) = o - h tanh(c)
        grad_cell = torch.addcmul(grad_cell, grad_hidden * o, 1 - squashed * squashed)
        grad_gates = activated * (1 - activated)  # of the three sigmoids; the tanh gate is overwritten
        d_i, d_f, d_g, d_o = grad_gates.chunk(4, dim=-1)
        d_i.mul_(g).mul_(grad_cell)
        d_f.mul_(cell).mul_(grad_cell)
        torch.mul(1 - g * g, i, out=d_g).mul_(grad_cell)
        d_o.mul_(squashed).mul_(grad_hidden)
        return grad_gates, grad_cell * f


def lstm_cell(gates: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor]:
    """One LSTM step from its pre-activations.

    Args:
        gates: ``[..., 4 * H]``, pre-activations in torch's order: input, forget, cell, output
        cell: ``[..., H]``, the previous cell state

    Returns:
        hidden and cell state, ``[..., H]`` each
    """
    return _LSTMCell.apply(gates, cell)
