"""The element-wise part of an LSTM step, as one autograd node.

    i, f, o = sigmoid(gates_i), sigmoid(gates_f), sigmoid(gates_o);   g = tanh(gates_g)
    c = f * c_prev + i * g;   h = o * tanh(c)

(Hochreiter and Schmidhuber 1997, "Long Short-Term Memory", with the forget gates of Gers et al. 2000).
``torch.nn.LSTMCell`` combines this with two matrix products. A decoder with input feeding computes the products itself
(:mod:`fairseq_attn_plugin.modules.recurrence`) and calls this function for the element-wise part.

Gates from products in half precision are the sums before their activation. They are kept for the backward pass, which
activates them again; the cell state and all arithmetic are in float32.

A GPU has torch's own fused cell (:func:`fused_lstm_cell`), one kernel in each pass.
"""

from __future__ import annotations

from typing import Any, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..devices import on_gpu
from ..exporting import exporting
from ..precision import without_autocast
from ..tanh import by_sigmoid, tanh_

__all__ = ["CLOSED", "fused_lstm_cell", "has_fused_cell", "lstm_cell"]

# The pre-activation of a closed gate: its sigmoid is exactly 0, and that of its negative, of an open gate, exactly 1.
CLOSED = -1e4


def _activate_(gates: Tensor) -> Tensor:
    """Pre-activations ``[..., 4 * H]`` become [i, f, g, o], in place; without autograd."""
    size = gates.size(-1) // 4
    g = gates[..., 2 * size : 3 * size]
    if by_sigmoid(gates):
        g.mul_(2)
        gates.sigmoid_()
        g.mul_(2).sub_(1)
    else:
        squashed = torch.tanh(g)
        gates.sigmoid_()
        g.copy_(squashed)
    return gates


def _forward(activated: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    """h, c and tanh(c), each ``[..., H]``, of activated gates and the previous cell state."""
    i, f, g, o = activated.chunk(4, dim=-1)
    new_cell = torch.mul(f, cell).addcmul_(i, g)
    squashed = tanh_(new_cell.clone())
    return torch.mul(o, squashed), new_cell, squashed


def _backward(
    activated: Tensor, cell: Tensor, squashed: Tensor, grad_hidden: Tensor, grad_cell: Tensor
) -> Tuple[Tensor, Tensor]:
    """The gradients of the pre-activations ``[..., 4 * H]`` and of the previous cell state ``[..., H]``.

    Args:
        activated, cell: as in :func:`_forward`
        squashed: its tanh(c)
        grad_hidden, grad_cell: the gradients of h and c
    """
    grad_gates = torch.empty_like(activated)
    i, f, g, o = activated.chunk(4, dim=-1)
    d_i, d_f, d_g, d_o = grad_gates.chunk(4, dim=-1)
    of_sigmoid, of_tanh = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
    d_cell = of_tanh(grad_hidden * o, squashed).add_(grad_cell)
    torch.mul(d_cell, g, out=d_i)
    torch.mul(d_cell, cell, out=d_f)
    torch.mul(d_cell, i, out=d_g)
    torch.mul(grad_hidden, squashed, out=d_o)
    of_tanh(d_g, g, grad_input=d_g)
    size = cell.size(-1)
    first_two = grad_gates[..., : 2 * size]
    of_sigmoid(first_two, activated[..., : 2 * size], grad_input=first_two)
    of_sigmoid(d_o, o, grad_input=d_o)
    return grad_gates, d_cell.mul_(f)


class _LSTMCell(Function):
    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor]:
        activated = _activate_(gates.to(cell.dtype, copy=True))
        hidden, new_cell, squashed = _forward(activated, cell)
        ctx.half = gates.dtype != cell.dtype
        ctx.save_for_backward(gates if ctx.half else activated, cell, squashed)
        return hidden, new_cell

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_hidden: Tensor, grad_cell: Tensor) -> Tuple[Tensor, Tensor]:
        gates, cell, squashed = ctx.saved_tensors
        activated = _activate_(gates.to(cell.dtype)) if ctx.half else gates
        d_gates, d_cell = _backward(activated, cell, squashed, grad_hidden, grad_cell)
        return d_gates.to(gates.dtype), d_cell


def lstm_cell(gates: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor]:
    """One LSTM step from its pre-activations.

    Args:
        gates: ``[..., 4 * H]``, pre-activations in torch's order: input, forget, cell, output
        cell: ``[..., H]``, the previous cell state

    Returns:
        hidden and cell state, ``[..., H]`` each, in the type of ``cell``
    """
    if torch.onnx.is_in_onnx_export():  # which writes into a tensor as a scattering of all its numbers
        i, f, g, o = gates.split(int(gates.size(-1)) // 4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell
    if not torch.is_grad_enabled():
        return _forward(_activate_(gates.to(cell.dtype, copy=True)), cell)[:2]
    return _LSTMCell.apply(gates, cell)


def has_fused_cell(like: Tensor) -> bool:
    """Whether :func:`fused_lstm_cell` takes tensors like this one: torch has it for GPUs."""
    return on_gpu(like) and not exporting()


def fused_lstm_cell(gates: Tensor, others: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor]:
    """:func:`lstm_cell` of ``gates + others``, ``[R, 4 * H]`` each."""
    with without_autocast(cell):  # cell states would lose digits at every step
        hidden, new_cell, _ = torch.ops.aten._thnn_fused_lstm_cell(gates.to(cell.dtype), others.to(cell.dtype), cell)
    return hidden, new_cell
