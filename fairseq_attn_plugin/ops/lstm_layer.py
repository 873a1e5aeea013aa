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

from .lstm_cell import activated_gates, lstm_cell_backward, lstm_cell_forward
from .precision import autocast_enabled, product_type
from .products import outer

__all__ = ["computed_by_layers", "lstm_layer"]

# A pre-activation whose sigmoid is exactly 0, or with the opposite sign exactly 1.
_CLOSED = -1e4


class _Direction(NamedTuple):
    """One LSTM of a layer: parameters, with the gates in torch's order, and the states before its first step."""

    w_input: Tensor  # [4 H, I]
    w_hidden: Tensor  # [4 H, H]
    bias: Tensor  # [4 H]
    hidden: Tensor  # [R, H]
    cell: Tensor  # [R, H]


class _Kept(NamedTuple):
    """What the backward pass of one LSTM needs. The states have one more place, before the first step, as computed."""

    w_input: Tensor  # [4 H, I]
    w_hidden: Tensor  # [4 H, H]
    gates: Tensor  # [T, R, 4 H], before the activation, by position
    hidden: Tensor  # [T + 1, R, H]
    cell: Tensor  # [T + 1, R, H], in float32, as what follows
    squashed: Tensor  # [T, R, H], tanh of the cell states


def _positions(steps: int, direction: int) -> Sequence[int]:
    """The positions in the order of their computation; the second LSTM of a layer reads backwards."""
    return range(steps) if direction == 0 else range(steps - 1, -1, -1)


def _run(one: _Direction, inputs: Tensor, padding: Optional[Tensor], order: Sequence[int], outputs: Tensor) -> _Kept:
    """Runs one LSTM over ``inputs`` ``[T R, I]``; writes its hidden states to ``outputs`` ``[T, R, H]``."""
    steps, rows, size = outputs.shape
    w_input, w_hidden = one.w_input.to(inputs.dtype), one.w_hidden.to(inputs.dtype)
    gates = F.linear(inputs, w_input, one.bias.to(inputs.dtype))
    if padding is not None:
        gates[:, :size].index_fill_(0, padding, _CLOSED)
        gates[:, size : 2 * size].index_fill_(0, padding, -_CLOSED)
    gates = gates.view(steps, rows, -1)
    hidden, cell = inputs.new_empty(steps + 1, rows, size), outputs.new_empty(steps + 1, rows, size)
    squashed = outputs.new_empty(steps, rows, size)
    hidden[0], cell[0] = one.hidden, one.cell
    for count, t in enumerate(order):
        activated = activated_gates(gates[t].addmm_(hidden[count], w_hidden.t()), cell[count])
        lstm_cell_forward(activated, cell[count], outputs[t], cell[count + 1], squashed[count])
        hidden[count + 1] = outputs[t]
    return _Kept(w_input, w_hidden, gates, hidden, cell, squashed)


def _run_back(
    kept: _Kept, inputs: Tensor, order: Sequence[int], d_outputs: Tensor, d_cell: Tensor
) -> Tuple[Tensor, Tuple[Tensor, ...]]:
    """The gradients of the inputs ``[T R, I]`` and of a :class:`_Direction`.

    Args:
        kept: of the forward pass
        inputs, order: as there
        d_outputs: ``[T, R, H]``
        d_cell: ``[R, H]``, of the last cell state
    """
    d_gates, d_hidden = torch.empty_like(kept.gates), torch.zeros_like(d_cell)
    computed = torch.empty_like(kept.hidden[1:])  # the states before each step, by position
    for count in range(len(order) - 1, -1, -1):
        t, cell = order[count], kept.cell[count]
        activated = activated_gates(kept.gates[t], cell)
        d_hidden = d_hidden + d_outputs[t]
        change, d_cell = lstm_cell_backward(activated, cell, kept.squashed[count], d_hidden, d_cell)
        d_gates[t], computed[t] = change, kept.hidden[count]
        d_hidden = (d_gates[t] @ kept.w_hidden).float()
    flat = d_gates.flatten(0, 1)
    d_weights = (outer(flat, inputs).float(), outer(flat, computed.flatten(0, 1)).float())
    return flat @ kept.w_input, (*d_weights, flat.sum(0, dtype=torch.float32), d_hidden, d_cell)


class _Layer(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, padding: Optional[Tensor], dtype: torch.dtype, *flat: Tensor
    ) -> Tuple[Tensor, Tensor]:
        directions = [_Direction(*flat[start : start + 5]) for start in range(0, len(flat), 5)]
        steps, rows, _ = x.shape
        inputs = x.reshape(steps * rows, -1).to(dtype)
        size = directions[0].cell.size(-1)
        outputs = x.new_empty(steps, rows, size * len(directions))
        kept = [
            _run(one, inputs, padding, _positions(steps, number), part)
            for number, (one, part) in enumerate(zip(directions, outputs.split(size, dim=-1)))
        ]
        ctx.save_for_backward(inputs, *(tensor for one in kept for tensor in one))
        return outputs, torch.stack([one.cell[-1] for one in kept])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_cells: Tensor) -> Tuple[Optional[Tensor], ...]:
        inputs, *flat = ctx.saved_tensors
        count = len(_Kept._fields)
        kept = [_Kept(*flat[start : start + count]) for start in range(0, len(flat), count)]
        size, steps = d_cells.size(-1), d_outputs.size(0)
        gradients: List[Optional[Tensor]] = []
        d_x = d_outputs.new_zeros(())
        for number, (one, d_part, d_cell) in enumerate(zip(kept, d_outputs.split(size, dim=-1), d_cells)):
            d_inputs, others = _run_back(one, inputs, _positions(steps, number), d_part, d_cell)
            d_x = d_x + d_inputs
            gradients += others
        return (d_x.float().view(*d_outputs.shape[:2], -1), None, None, *gradients)


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
