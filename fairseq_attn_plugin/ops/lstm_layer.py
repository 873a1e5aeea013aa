"""A layer of LSTMs over whole sequences whose products are in bfloat16, as one autograd node.

    gates_t = W_x x_t + W_h h_{t-1} + b,    h_t, c_t = lstm_cell(gates_t, c_{t-1})

The products with all x_t are one product before the loop, and so are the gradients of W_x, W_h and x after it. Cell
states, element-wise arithmetic and results are in float32. torch's own LSTM would round the cell state in bfloat16.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .lstm_cell import CLOSED, activate_gates_, lstm_cell_backward, lstm_cell_forward
from .precision import autocast_enabled, product_type
from .products import outer

__all__ = ["computed_by_layers", "lstm_layer"]


class _Direction(NamedTuple):
    """One LSTM of a layer: parameters, with the gates in torch's order, and the states before its first step."""

    w_input: Tensor  # [4 H, I]
    w_hidden: Tensor  # [4 H, H]
    bias: Tensor  # [4 H]
    hidden: Tensor  # [R, H]
    cell: Tensor  # [R, H]


def _orders(steps: int, directions: int) -> List[Sequence[int]]:
    """The positions in the order of their computation; the second LSTM of a layer reads backwards."""
    orders: List[Sequence[int]] = [range(steps), range(steps - 1, -1, -1)]
    return orders[:directions]


class _Layer(Function):
    # The directions D of a layer take their steps together. States are kept in the order of computation, with one more
    # place for those before the first step; everything else is kept by position.

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, padding: Optional[Tensor], dtype: torch.dtype, *flat: Tensor
    ) -> Tuple[Tensor, Tensor]:
        directions = [_Direction(*flat[start : start + 5]) for start in range(0, len(flat), 5)]
        (steps, rows), size = x.shape[:2], directions[0].cell.size(-1)
        shape = (len(directions), rows, size)
        inputs = x.reshape(steps * rows, -1).to(dtype)
        w_inputs, w_hiddens = ([one[part].to(dtype) for one in directions] for part in (0, 1))
        gates = [F.linear(inputs, weight, one.bias.to(dtype)) for weight, one in zip(w_inputs, directions)]
        if padding is not None:
            for one in gates:
                one[:, :size].index_fill_(0, padding, CLOSED)
                one[:, size : 2 * size].index_fill_(0, padding, -CLOSED)
        gates = [one.view(steps, rows, -1) for one in gates]
        hidden, cell = inputs.new_empty(steps + 1, *shape), x.new_empty(steps + 1, *shape)
        for number, one in enumerate(directions):
            hidden[0, number], cell[0, number] = one.hidden, one.cell
        squashed, outputs = x.new_empty(steps, *shape), x.new_empty(steps, rows, len(directions), size)
        activated, h = x.new_empty(*shape[:2], 4 * size), x.new_empty(shape)
        for count, positions in enumerate(zip(*_orders(steps, len(directions)))):
            for number, t in enumerate(positions):
                activated[number] = gates[number][t].addmm_(hidden[count, number], w_hiddens[number].t())
            activate_gates_(activated)
            lstm_cell_forward(activated, cell[count], h, cell[count + 1], squashed[count])
            hidden[count + 1] = h
            for number, t in enumerate(positions):
                outputs[t, :, number] = h[number]
        ctx.save_for_backward(inputs, hidden, cell, squashed, *w_inputs, *w_hiddens, *gates)
        return outputs.flatten(2), cell[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_cell: Tensor) -> Tuple[Optional[Tensor], ...]:
        inputs, hidden, cell, squashed, *rest = ctx.saved_tensors
        directions = len(rest) // 3
        w_inputs, w_hiddens, gates = (rest[k * directions : (k + 1) * directions] for k in range(3))
        steps, (rows, size) = d_outputs.size(0), d_cell.shape[1:]
        d_parts = d_outputs.view(steps, rows, directions, size)
        d_gates = [torch.empty_like(one) for one in gates]
        d_hidden = torch.zeros_like(d_cell)
        activated = d_cell.new_empty(directions, rows, 4 * size)
        change = torch.empty_like(activated)
        orders = _orders(steps, directions)
        for count in range(steps - 1, -1, -1):
            positions = [order[count] for order in orders]
            for number, t in enumerate(positions):
                activated[number] = gates[number][t]
                d_hidden[number] += d_parts[t, :, number]
            activate_gates_(activated)
            _, d_cell = lstm_cell_backward(activated, cell[count], squashed[count], d_hidden, d_cell, change)
            for number, t in enumerate(positions):
                d_gates[number][t] = change[number]
                d_hidden[number] = d_gates[number][t] @ w_hiddens[number]
        d_x = torch.zeros_like(inputs, dtype=d_cell.dtype)
        gradients: List[Optional[Tensor]] = [None, None]
        for number, flat in enumerate(one.flatten(0, 1) for one in d_gates):
            before = hidden[:-1, number]  # by position, as the gates:
            before = (before.flip(0) if number else before).reshape(steps * rows, -1)
            d_x += flat @ w_inputs[number]
            parameters = (outer(flat, inputs), outer(flat, before), flat.sum(0))
            gradients += [*(one.to(d_cell.dtype) for one in parameters), d_hidden[number], d_cell[number]]
        return (d_x.view(steps, rows, -1), *gradients)


def computed_by_layers(x: Tensor) -> bool:
    """Whether :func:`lstm_layer` replaces torch's LSTM: on a processor, where products are in half precision."""
    return x.device.type == "cpu" and x.dtype == torch.float32 != product_type(x) and not autocast_enabled(x)


def lstm_layer(
    x: Tensor,
    lstm: nn.LSTM,
    layer: int,
    states: Optional[Tuple[Tensor, Tensor]] = None,
    padding: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """One layer of an ``nn.LSTM`` in the present :func:`~fairseq_attn_plugin.ops.precision.product_type`.

    Args:
        x: ``[T, R, I]``, positions first
        lstm: supplies the parameters
        layer: which layer
        states: hidden and cell states ``[directions, R, H]`` before the first step (default: zeros)
        padding: numbers t R + r of the positions where the cell state does not change (the input gate is closed and
            the forget gate open); the hidden state there is meaningless

    Returns:
        hidden states ``[T, R, directions * H]``, and the last cell states ``[directions, R, H]``
    """
    directions = 2 if lstm.bidirectional else 1
    if states is None:
        states = (x.new_zeros(directions, x.size(1), lstm.hidden_size),) * 2
    flat: List[Tensor] = []
    for suffix, hidden, cell in zip(("", "_reverse")[:directions], *states):
        w_input, w_hidden, b_input, b_hidden = (
            getattr(lstm, f"{name}_l{layer}{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        flat += [w_input, w_hidden, b_input + b_hidden, hidden, cell]
    result: Tuple[Tensor, Tensor] = _Layer.apply(x, padding, product_type(x), *flat)
    return result
