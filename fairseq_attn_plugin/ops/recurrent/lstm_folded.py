"""The element-wise part of an LSTM step with few operations, for autograd nodes that know the weights.

    i, f, o = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o),   g = tanh(z_g) = 1 - 2 s,   s = sigmoid(-2 z_g)
    c' = f c + i - 2 i s,   u = sigmoid(-2 c'),   h = o tanh(c') = o - 2 o u

The factor -2 of z_g is folded into the weights (:func:`fold_`), so that one sigmoid activates all gates; the same holds
for their gradients, where d z_g = 4 dg/ds s (1 - s). The factors are powers of two: products are rounded as without
them.
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["FORWARD", "GRADIENT", "fold_", "folded_backward", "folded_forward"]

# Factors of the rows of g: of weights in the forward pass; of weights and their gradients in the backward pass.
FORWARD, GRADIENT = -2.0, 4.0


def fold_(parameter: Tensor, factor: float) -> Tensor:
    """Multiplies the rows of g in a weight ``[4 H, I]`` or bias ``[4 H]``, in place."""
    size = len(parameter) // 4
    parameter[2 * size : 3 * size].mul_(factor)
    return parameter


def folded_forward(gates: Tensor, cell: Tensor, hidden: Tensor, new_cell: Tensor, squashed: Tensor) -> None:
    """One step.

    Args:
        gates: pre-activations ``[..., 4 H]`` of folded weights, activated in place: [i, f, s, o]
        cell: ``[..., H]``, c
        hidden, new_cell, squashed: tensors that take h, c' and u
    """
    i, f, s, o = gates.sigmoid_().chunk(4, dim=-1)
    torch.addcmul(i, i, s, value=-2, out=new_cell).addcmul_(f, cell)
    torch.mul(new_cell, -2, out=squashed).sigmoid_()
    torch.addcmul(o, o, squashed, value=-2, out=hidden)


def folded_backward(
    gates: Tensor, cell: Tensor, squashed: Tensor, grad_hidden: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> Tensor:
    """Returns the gradient of c.

    Args:
        gates, cell, squashed: of :func:`folded_forward`, activated
        grad_hidden, grad_cell: the gradients of h and c'
        grad_gates: ``[..., 4 H]``, takes the gradients of the pre-activations, a quarter of them in g
    """
    of_sigmoid = torch.ops.aten.sigmoid_backward
    i, f, s, o = gates.chunk(4, dim=-1)
    d_i, d_f, d_s, d_o = grad_gates.chunk(4, dim=-1)
    through = torch.mul(grad_hidden, o)
    d_cell = torch.add(grad_cell, of_sigmoid(through, squashed, grad_input=through), alpha=4)
    torch.addcmul(d_cell, d_cell, s, value=-2, out=d_i)
    torch.mul(d_cell, cell, out=d_f)
    torch.mul(d_cell, i, out=d_s)
    torch.addcmul(grad_hidden, grad_hidden, squashed, value=-2, out=d_o)
    of_sigmoid(grad_gates, gates, grad_input=grad_gates)
    return d_cell.mul_(f)
