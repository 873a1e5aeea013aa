"""LSTM steps, and layers of LSTMs over whole sequences whose products are in bfloat16.

    i, f, o = sigmoid(gates_i), sigmoid(gates_f), sigmoid(gates_o);   g = tanh(gates_g)
    c = f * c_prev + i * g;   h = o * tanh(c)

(Hochreiter and Schmidhuber 1997, "Long Short-Term Memory", with the forget gates of Gers et al. 2000).
``torch.nn.LSTMCell`` combines this with two matrix products. A decoder with input feeding computes the products itself
(:mod:`fairseq_attn_plugin.modules.recurrence`) and calls :func:`lstm_cell` for the element-wise part. A GPU has torch's
own fused cell (:func:`fused_lstm_cell`), one kernel in each pass.

:func:`lstm_layer` is a layer as one autograd node. The products with all inputs are one product before the loop, and so
are the gradients of the weights and of the inputs after it. Cell states, element-wise arithmetic and results are in
float32. torch's own LSTM would round the cell state in bfloat16. The layer knows the weights and needs few operations
for a step:

    i, f, o = sigmoid(z_i), sigmoid(z_f), sigmoid(z_o),   g = tanh(z_g) = 1 - 2 s,   s = sigmoid(-2 z_g)
    c' = f c + i - 2 i s,   u = sigmoid(-2 c'),   h = o tanh(c') = o - 2 o u

The factor -2 of z_g is folded into the weights (:func:`_fold_`), so that one sigmoid activates all gates; the same
holds for their gradients, where dL/dz_g = 4 s (1 - s) dL/dg. The factors are powers of two: products are rounded as
without them.
"""

from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .devices import exporting, on_gpu
from .precision import autocast_enabled, product_type, without_autocast
from .products import Prepared, outer, tall

# The pre-activation of a closed gate: its sigmoid is exactly 0, and that of its negative, of an open gate, exactly 1.
CLOSED = -1e4
# Factors of the rows of g: of weights in the forward pass; of weights and their gradients in the backward pass.
FORWARD, GRADIENT = -2.0, 4.0
LEAST_PRODUCTS = 12_000_000  # multiplications of a step, from which on a layer is faster in bfloat16


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


def _fold_(parameter: Tensor, factor: float) -> Tensor:
    """Multiplies the rows of g in a weight ``[4 H, I]`` or bias ``[4 H]``, in place."""
    size = len(parameter) // 4
    parameter[2 * size : 3 * size].mul_(factor)
    return parameter


def _folded_forward(gates: Tensor, cell: Tensor, hidden: Tensor, new_cell: Tensor, squashed: Tensor) -> None:
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


def _folded_backward(
    gates: Tensor, cell: Tensor, squashed: Tensor, grad_hidden: Tensor, grad_cell: Tensor, grad_gates: Tensor
) -> Tensor:
    """Returns the gradient of c.

    Args:
        gates, cell, squashed: of :func:`_folded_forward`, activated
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


class _Direction(NamedTuple):
    """One LSTM of a layer: parameters, with the gates in torch's order, and the states before its first step."""

    w_input: Tensor  # [4 H, I]
    w_hidden: Tensor  # [4 H, H]
    bias: Tensor  # [4 H]
    hidden: Tensor  # [R, H]
    cell: Tensor  # [R, H]


def reading_orders(steps: int, directions: int) -> List[Sequence[int]]:
    """The positions in the order of their computation; the second LSTM of a layer reads backwards."""
    orders: List[Sequence[int]] = [range(steps), range(steps - 1, -1, -1)]
    return orders[:directions]


class _Layer(Function):
    # The directions D of a layer take their steps together. What goes into products is kept by position, cell states in
    # the order of computation. Hidden states have one more position: those before step t are at t, or at t + 1 in the
    # LSTM that reads backwards; those after it are at t + 1, or at t.

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, padding: Optional[Tensor], dtype: torch.dtype, *flat: Tensor
    ) -> Tuple[Tensor, Tensor]:
        directions = [_Direction(*flat[start : start + 5]) for start in range(0, len(flat), 5)]
        (steps, rows), size = x.shape[:2], directions[0].cell.size(-1)
        shape = (len(directions), rows, size)
        inputs = tall(x, dtype)
        w_inputs, w_hiddens = ([_folded(one[part], dtype) for one in directions] for part in (0, 1))
        gates = [
            Prepared(weight, dtype).linear(inputs, _folded(one.bias, dtype))
            for weight, one in zip(w_inputs, directions)
        ]
        if padding is not None:
            for one in gates:
                one[:, :size].index_fill_(0, padding, CLOSED)
                one[:, size : 2 * size].index_fill_(0, padding, -CLOSED)
        hiddens = [inputs.new_zeros(len(inputs) + rows, size) for _ in directions]
        stepped = [by_step(one, steps, rows) for one in gates]
        hidden = [by_step(one, steps + 1, rows) for one in hiddens]
        cell, squashed = x.new_empty(steps + 1, *shape), x.new_empty(steps, *shape)
        for number, one in enumerate(directions):
            hidden[number][-number], cell[0, number] = one.hidden, one.cell
        activated, h = x.new_empty(*shape[:2], 4 * size), x.new_empty(shape)
        outputs = x.new_empty(steps, rows, len(directions), size)
        for count, positions in enumerate(zip(*reading_orders(steps, len(directions)))):
            for number, t in enumerate(positions):
                activated[number] = stepped[number][t].addmm_(hidden[number][t + number], w_hiddens[number].t())
            _folded_forward(activated, cell[count], h, cell[count + 1], squashed[count])
            for number, t in enumerate(positions):
                hidden[number][t + 1 - number] = h[number]
                outputs[t, :, number] = h[number]
        ctx.save_for_backward(inputs, cell, squashed, *hiddens, *w_inputs, *w_hiddens, *gates)
        return outputs.flatten(2), cell[-1].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_outputs: Tensor, d_cell: Tensor) -> Tuple[Optional[Tensor], ...]:
        inputs, cell, squashed, *rest = ctx.saved_tensors
        (directions, rows, size), steps = d_cell.shape, d_outputs.size(0)
        hiddens, w_inputs, w_hiddens, gates = (rest[k * directions : (k + 1) * directions] for k in range(4))
        w_inputs, w_hiddens = (
            [Prepared(_fold_(weight.clone(), GRADIENT / FORWARD), weight.dtype) for weight in part]
            for part in (w_inputs, w_hiddens)
        )
        d_parts = d_outputs.view(steps, rows, directions, size)
        d_flat = [torch.empty_like(one) for one in gates]
        for one in d_flat:
            one[steps * rows :].zero_()
        gates, d_gates = ([by_step(one, steps, rows) for one in part] for part in (gates, d_flat))
        d_hidden, activated = torch.zeros_like(d_cell), d_cell.new_empty(directions, rows, 4 * size)
        change = torch.empty_like(activated)
        orders = reading_orders(steps, directions)
        for count in range(steps - 1, -1, -1):
            positions = [order[count] for order in orders]
            for number, t in enumerate(positions):
                activated[number] = gates[number][t]
                d_hidden[number] += d_parts[t, :, number]
            d_cell = _folded_backward(activated.sigmoid_(), cell[count], squashed[count], d_hidden, d_cell, change)
            for number, t in enumerate(positions):
                d_gates[number][t] = change[number]
                d_hidden[number] = w_hiddens[number].matmul(d_gates[number][t])
        d_x: Optional[Tensor] = None
        gradients: List[Optional[Tensor]] = [None, None]
        for number, (one, hidden) in enumerate(zip(d_flat, hiddens)):
            d_x = w_inputs[number].matmul(one, d_x)
            before = hidden[number * rows :][: len(one)]
            parameters = (outer(one, inputs, one.dtype), outer(one, before, one.dtype), one.sum(0))
            gradients += [_fold_(each.to(d_cell.dtype), GRADIENT) for each in parameters]
            gradients += [d_hidden[number], d_cell[number]]
        assert d_x is not None
        return (by_step(d_x, steps, rows).to(d_cell.dtype), *gradients)


def by_step(matrix: Tensor, steps: int, rows: int) -> Tensor:
    """A matrix whose rows are positions, and zeros after them, as ``[steps, rows, ...]``."""
    return matrix[: steps * rows].view(steps, rows, -1)


def _folded(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    return _fold_(parameter.detach().to(dtype, copy=True), FORWARD)


def computed_by_layers(x: Tensor, rnn: nn.RNNBase) -> bool:
    """Whether layers of our own replace those of torch: on a processor, where products are in half precision, and where
    a step has enough of them. A step of a few rows or units takes less time in torch's float32.

    Args:
        x: ``[R, T, I]``, the input of the first layer
    """
    if x.device.type != "cpu" or not x.dtype == torch.float32 != product_type(x) or autocast_enabled(x):
        return False
    directions = 2 if rnn.bidirectional else 1
    weights = sum(weight.numel() for one in rnn.all_weights[:directions] for weight in one if weight.dim() == 2)
    return x.size(0) * weights >= LEAST_PRODUCTS


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
    for (w_input, w_hidden, b_input, b_hidden), hidden, cell in zip(lstm.all_weights[layer * directions :], *states):
        flat += [w_input, w_hidden, b_input + b_hidden, hidden, cell]
    return _Layer.apply(x, padding, product_type(x), *flat)
