"""The recurrent layers of an exported step, as modules of plain operations; K hypotheses of B sentences."""

from __future__ import annotations

from typing import Any, List, Tuple

import torch
from torch import Tensor, nn

from ..modules.recurrence import LayerStates

__all__ = ["layers_graph"]


def _parts(rnn: Any, layer: int) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    w_input, w_hidden, b_input, b_hidden = (getattr(rnn, f"{name}_l{layer}").detach() for name in names)
    return w_input, w_hidden, b_input, b_hidden


class _LSTMGraph(nn.Module):
    """The layers of an LSTM decoder."""

    def __init__(self, decoder: Any):
        super().__init__()
        self.size = decoder.hidden_size
        order = torch.arange(4 * self.size).view(4, -1)[[0, 1, 3, 2]].flatten()  # the three sigmoids side by side
        for layer in range(decoder.num_layers):
            w_input, w_hidden, b_input, b_hidden = _parts(decoder.rnn, layer)
            self.register_buffer(f"weight{layer}", torch.cat([w_input, w_hidden], dim=1)[order].t())
            self.register_buffer(f"bias{layer}", (b_input + b_hidden)[order])

    def forward(self, x: Tensor, states: LayerStates) -> Tuple[LayerStates, Tensor]:
        """The new states, and the highest one ``[B, K, Ds]``; ``x`` ``[B, K, E + F]`` is the lowest layer's input."""
        size, shape = self.size, x.shape[:2]
        hidden: List[Tensor] = []
        cells: List[Tensor] = []
        for layer, (h, c) in enumerate(zip(*states)):
            read = torch.cat([x, h], dim=-1).flatten(0, 1)
            gates = read @ getattr(self, f"weight{layer}") + getattr(self, f"bias{layer}")
            closing, candidate = gates.split([3 * size, size], dim=-1)
            i, f, o = torch.sigmoid(closing).split(size, dim=-1)
            cell = f * c.flatten(0, 1) + i * torch.tanh(candidate)
            x = (o * torch.tanh(cell)).view(*shape, size)
            hidden.append(x)
            cells.append(cell.view(*shape, size))
        return LayerStates(tuple(hidden), tuple(cells)), x


class _GRUGraph(nn.Module):
    """The layers of a GRU decoder."""

    def __init__(self, decoder: Any):
        super().__init__()
        self.size = decoder.hidden_size
        for layer in range(decoder.num_layers):
            w_input, w_hidden, b_input, b_hidden = _parts(decoder.rnn, layer)
            for name, weight, bias in (("input", w_input, b_input), ("state", w_hidden, b_hidden)):
                self.register_buffer(f"{name}_weight{layer}", weight.t())
                self.register_buffer(f"{name}_bias{layer}", bias)

    def _gates(self, name: str, layer: int, x: Tensor) -> Tuple[Tensor, Tensor]:
        """Those of r and z, and that of n."""
        gates = x.flatten(0, 1) @ getattr(self, f"{name}_weight{layer}") + getattr(self, f"{name}_bias{layer}")
        first, new = gates.split([2 * self.size, self.size], dim=-1)
        return first, new

    def forward(self, x: Tensor, states: LayerStates) -> Tuple[LayerStates, Tensor]:
        """See :meth:`_LSTMGraph.forward`."""
        shape = x.shape[:2]
        hidden: List[Tensor] = []
        for layer, h in enumerate(states.hidden):
            of_inputs, of_state = self._gates("input", layer, x), self._gates("state", layer, h)
            r, z = torch.sigmoid(of_inputs[0] + of_state[0]).split(self.size, dim=-1)
            new = torch.tanh(of_inputs[1] + r * of_state[1])
            x = (new + z * (h.flatten(0, 1) - new)).view(*shape, self.size)
            hidden.append(x)
        return LayerStates(tuple(hidden), ()), x


def layers_graph(decoder: Any) -> nn.Module:
    """The layers of a decoder of either kind: a module of the lowest layer's input and :class:`LayerStates`."""
    return _LSTMGraph(decoder) if decoder.kind == "lstm" else _GRUGraph(decoder)
