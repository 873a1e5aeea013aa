"""GRU steps, and layers of GRUs over whole sequences whose products are in bfloat16.

    r, z = sigmoid(x_r + u_r), sigmoid(x_z + u_z);   n = tanh(x_n + r * u_n);   h = n + z * (h_prev - n)

with x = W_x x_t + b_x and u = W_h h_prev + b_h (Cho et al. 2014, "Learning Phrase Representations using RNN
Encoder-Decoder for Statistical Machine Translation", in the form of cuDNN and of ``torch.nn.GRU``, which applies the
reset gate r after the product). A decoder with input feeding computes the products itself
(:mod:`fairseq_attn_plugin.modules.recurrence`) and calls :func:`gru_cell` for the element-wise part. Gates from
products in half precision are the sums before their activation; all arithmetic is in the type of the state.

:func:`gru_layer` is a layer as one autograd node. The products with all inputs are one product before the loop, and so
are the gradients of the weights and of the inputs after it. States, element-wise arithmetic and results are in float32.
torch's own GRU would round the state in bfloat16.
"""

from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .lstm import CLOSED, by_step, reading_orders
from .precision import product_type
from .products import Prepared, outer, tall


def _gru_forward(gates: Tensor, candidate: Tensor, of_state: Tensor, hidden: Tensor, new_hidden: Tensor) -> None:
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


def _gru_backward(
    gates: Tensor, candidate: Tensor, of_state: Tensor, hidden: Tensor, grad: Tensor, grad_gates: Tensor
) -> Tensor:
    """Returns the gradient of the previous state along z, that is, without its product with the weights.

    Args:
        gates, candidate, of_state, hidden: of :func:`_gru_forward`, after it
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


class _Direction(NamedTuple):
    """One GRU of a layer: parameters, with the gates in torch's order, and the state before its first step."""

    w_input: Tensor  # [3 H, I]
    w_hidden: Tensor  # [3 H, H]
    b_input: Tensor  # [3 H]
    b_hidden: Tensor  # [3 H]
    hidden: Tensor  # [R, H]


class _Layer(Function):
    # As that of an LSTM: the directions take their steps together; what goes into products is kept by position,
    # everything else in the order of computation.

    @staticmethod
    def forward(ctx: Any, x: Tensor, padding: Optional[Tensor], dtype: torch.dtype, *flat: Tensor) -> Tensor:
        directions = [_Direction(*flat[start : start + 5]) for start in range(0, len(flat), 5)]
        (steps, rows), size = x.shape[:2], directions[0].hidden.size(-1)
        shape = (len(directions), rows, size)
        inputs = tall(x, dtype)
        w_inputs, w_hiddens = ([Prepared(one[part], dtype) for one in directions] for part in (0, 1))
        sums = [weight.linear(inputs, one.b_input) for weight, one in zip(w_inputs, directions)]
        if padding is not None:
            for one in sums:
                one[:, size : 2 * size].index_fill_(0, padding, -CLOSED)  # z = 1: the state stays
        hiddens = [inputs.new_zeros(len(inputs) + rows, size) for _ in directions]
        known = [by_step(one, steps, rows) for one in sums]
        hidden = [by_step(one, steps + 1, rows) for one in hiddens]
        states = x.new_empty(steps + 1, *shape)
        gates = x.new_empty(steps, *shape[:2], 2 * size)
        candidate, of_state = x.new_empty(steps, *shape), x.new_empty(steps, *shape)
        for number, one in enumerate(directions):
            hidden[number][-number], states[0, number] = one.hidden, one.hidden
        outputs = x.new_empty(steps, rows, len(directions), size)
        for count, positions in enumerate(zip(*reading_orders(steps, len(directions)))):
            for number, t in enumerate(positions):
                recurrent = w_hiddens[number].linear(hidden[number][t + number], directions[number].b_hidden)
                torch.add(known[number][t][:, : 2 * size], recurrent[:, : 2 * size], out=gates[count, number])
                candidate[count, number] = known[number][t][:, 2 * size :]
                of_state[count, number] = recurrent[:, 2 * size :]
            _gru_forward(gates[count], candidate[count], of_state[count], states[count], states[count + 1])
            for number, t in enumerate(positions):
                hidden[number][t + 1 - number] = states[count + 1, number]
                outputs[t, :, number] = states[count + 1, number]
        parameters = [weight.matrix for weight in (*w_inputs, *w_hiddens)]
        ctx.save_for_backward(inputs, gates, candidate, of_state, states, *hiddens, *parameters)
        return outputs.flatten(2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor) -> Tuple[Optional[Tensor], ...]:
        inputs, gates, candidate, of_state, states, *rest = ctx.saved_tensors
        (steps, directions, rows, size), dtype = of_state.shape, inputs.dtype
        hiddens, *weights = (rest[k * directions : (k + 1) * directions] for k in range(3))
        w_inputs, w_hiddens = ([Prepared(weight, dtype) for weight in part] for part in weights)
        d_parts = d_outputs.view(steps, rows, directions, size)
        flat = [[inputs.new_zeros(len(inputs), 3 * size) for _ in range(directions)] for _ in range(2)]
        d_inputs, d_recurrents = ([by_step(one, steps, rows) for one in part] for part in flat)
        d_hidden, change = torch.zeros_like(states[0]), gates.new_empty(directions, rows, 4 * size)
        order = reading_orders(steps, directions)
        for count in range(steps - 1, -1, -1):
            positions = [one[count] for one in order]
            for number, t in enumerate(positions):
                d_hidden[number] += d_parts[t, :, number]
            now = (gates[count], candidate[count], of_state[count], states[count])
            d_hidden = _gru_backward(*now, d_hidden, change)
            for number, t in enumerate(positions):
                d_inputs[number][t] = change[number, :, : 3 * size]
                d_recurrents[number][t, :, : 2 * size] = change[number, :, : 2 * size]
                d_recurrents[number][t, :, 2 * size :] = change[number, :, 3 * size :]
                d_hidden[number] += w_hiddens[number].matmul(d_recurrents[number][t])
        d_x: Optional[Tensor] = None
        gradients: List[Optional[Tensor]] = [None, None]
        for number, (of_inputs, of_recurrent) in enumerate(zip(*flat)):
            d_x = w_inputs[number].matmul(of_inputs, d_x)
            before = hiddens[number][number * rows :][: len(of_inputs)]
            products = (outer(of_inputs, inputs, dtype), outer(of_recurrent, before, dtype))
            gradients += [x.to(d_hidden.dtype) for x in (*products, of_inputs.sum(0), of_recurrent.sum(0))]
            gradients.append(d_hidden[number])
        assert d_x is not None
        return (by_step(d_x, steps, rows).to(d_hidden.dtype), *gradients)


def gru_layer(
    x: Tensor, gru: nn.GRU, layer: int, hidden: Optional[Tensor] = None, padding: Optional[Tensor] = None
) -> Tensor:
    """One layer of an ``nn.GRU`` in the present :func:`~fairseq_attn_plugin.ops.precision.product_type`.

    Args:
        x: ``[T, R, I]``, positions first
        gru: supplies the parameters
        layer: which layer
        hidden: states ``[directions, R, H]`` before the first step (default: zeros)
        padding: numbers t R + r of the positions where the state does not change (the update gate is open)

    Returns:
        states ``[T, R, directions * H]``
    """
    directions = 2 if gru.bidirectional else 1
    if hidden is None:
        hidden = x.new_zeros(directions, x.size(1), gru.hidden_size)
    flat: List[Tensor] = []
    for weights, state in zip(gru.all_weights[layer * directions :], hidden):
        flat += [*weights, state]
    return _Layer.apply(x, padding, product_type(x), *flat)
