"""The element-wise part of a GRU step.

    r, z = sigmoid(x_r + u_r), sigmoid(x_z + u_z);   n = tanh(x_n + r * u_n);   h = n + z * (h_prev - n)

with x = W_x x_t + b_x and u = W_h h_prev + b_h (Cho et al. 2014, "Learning Phrase Representations using RNN
Encoder-Decoder for Statistical Machine Translation", in the form of cuDNN and of ``torch.nn.GRU``, which applies the
reset gate r after the product). A decoder with input feeding computes the products itself
(:mod:`fairseq_attn_plugin.modules.recurrence`) and calls this function for the element-wise part.

Gates from products in half precision are the sums before their activation; all arithmetic is in the type
of the state.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["gru_backward", "gru_cell", "gru_forward"]


def gru_forward(gates: Tensor, candidate: Tensor, of_state: Tensor, hidden: Tensor, new_hidden: Tensor) -> None:
    """One step, in place.

    Args:
        gates: ``[..., 2 H]``, pre-activations of r and z; activated
        candidate: ``[..., H]``, x_n; becomes n
        of_state: ``[..., H]``, u_n
        hidden: ``[..., H]``, the previous state
        new_hidden: takes the new one. Where z is 1 it is the previous one, exactly
    """
    r, z = gates.sigmoid_().chunk(2, dim=-1)
    candidate.addcmul_(r, of_state).tanh_()
    torch.lerp(candidate, hidden, z, out=new_hidden)


def gru_backward(
    gates: Tensor, candidate: Tensor, of_state: Tensor, hidden: Tensor, grad: Tensor, grad_gates: Tensor
) -> Tensor:
    """Returns the gradient of the previous state along z, that is, without its product with the weights.

    Args:
        gates, candidate, of_state, hidden: of :func:`gru_forward`, after it
        grad: ``[..., H]``, the gradient of the new state
        grad_gates: ``[..., 4 H]``, takes the gradients of the pre-activations of r and z, of x_n and of u_n
    """
    of_sigmoid, of_tanh = torch.ops.aten.sigmoid_backward, torch.ops.aten.tanh_backward
    r, z = gates.chunk(2, dim=-1)
    d_r, d_z, d_n, d_u = grad_gates.chunk(4, dim=-1)
    along = grad * z
    of_tanh(grad - along, candidate, grad_input=d_n)
    torch.mul(d_n, of_state, out=d_r)
    torch.sub(hidden, candidate, out=d_z).mul_(grad)
    first_two = grad_gates[..., : gates.size(-1)]
    of_sigmoid(first_two, gates, grad_input=first_two)
    torch.mul(d_n, r, out=d_u)
    return along


def gru_cell(inputs: Tensor, recurrent: Tensor, hidden: Tensor) -> Tensor:
    """One GRU step from its pre-activations.

    Args:
        inputs: ``[..., 3 * H]``, x in torch's order: reset, update, new
        recurrent: ``[..., 3 * H]``, u in that order
        hidden: ``[..., H]``, the previous state

    Returns:
        the new state ``[..., H]``, in the type of ``hidden``
    """
    size, kind = int(hidden.size(-1)), hidden.dtype
    (x_r, x_z, x_n), (u_r, u_z, u_n) = (x.to(kind).split(size, dim=-1) for x in (inputs, recurrent))
    new = torch.tanh(x_n + torch.sigmoid(x_r + u_r) * u_n)
    return torch.lerp(new, hidden, torch.sigmoid(x_z + u_z))
