"""GRU layers of inference with packed products, in the places of those of LSTMs.

:class:`GRULayers` takes the place of :class:`~fairseq_attn_plugin.decoding.step_modules.Layers`, :class:`GRUDirection`
that of :class:`~fairseq_attn_plugin.decoding.packed_encoder.Direction`.

Shapes: R rows, B sentences, N source positions, L layers, H units, F units that are fed.
"""

from __future__ import annotations

from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..modules.decoder import LSTMDecoder
from ..modules.recurrence import step_weights
from ..ops.lstm_cell import CLOSED
from .products import pack

__all__ = ["GRUDirection", "GRULayers", "gru_step"]


def gru_step(inputs: Tensor, of_state: Tensor, hidden: Tensor, next_hidden: Tensor) -> None:
    """:func:`fairseq_attn_plugin.ops.gru_cell.gru_cell` without autograd; ``of_state`` ``[R, 3 H]`` is overwritten.

    ``next_hidden`` takes the state, and may be ``hidden`` itself.
    """
    size = hidden.size(1)
    r, z = of_state[:, : 2 * size].add_(inputs[:, : 2 * size]).sigmoid_().chunk(2, dim=1)
    new = torch.addcmul(inputs[:, 2 * size :], r, of_state[:, 2 * size :]).mul_(2.0).sigmoid_().mul_(2.0).sub_(1.0)
    torch.lerp(new, hidden, z, out=next_hidden)


class GRULayers(nn.Module):
    """The GRU layers of a decoder. What they hand on is one matrix [feed; h_1; ...; h_L], into which a step writes."""

    def __init__(self, decoder: LSTMDecoder, precision: str):
        super().__init__()
        gru, layers = decoder.rnn, range(decoder.num_layers)
        weights = step_weights(gru, decoder.embed_tokens.embedding_dim)
        # the first layer's bias of inputs is among the words' gates, see step_modules.WordGates
        self.fed = pack(weights[0], None, precision) if decoder.feed_size else None
        self.states = nn.ModuleList(
            pack(weights[2 * layer + 1], getattr(gru, f"bias_hh_l{layer}"), precision) for layer in layers
        )
        self.inputs = nn.ModuleList(
            pack(weights[2 * layer], getattr(gru, f"bias_ih_l{layer}"), precision) for layer in layers[1:]
        )
        self.sizes = [decoder.feed_size] + [decoder.hidden_size] * decoder.num_layers

    def forward(self, base: Tensor, recurrent: Tensor) -> Tensor:
        """One step.

        Args:
            base: ``[R, 3 H]``, of :class:`~fairseq_attn_plugin.decoding.step_modules.WordGates`; overwritten
            recurrent: ``[R, F + L H]``; h become those of this step

        Returns:
            the top state ``[R, H]``, a part of ``recurrent``
        """
        parts = recurrent.split(self.sizes, 1)
        if self.fed is not None:
            base = base.add_(self.fed(parts[0].contiguous()))
        of_states: List[Tensor] = []
        for layer, product in enumerate(self.states):
            of_states.append(product(parts[1 + layer].contiguous()))
        x = parts[1]
        gru_step(base, of_states[0], x, x)
        for layer, product in enumerate(self.inputs):
            inputs, x = product(x.contiguous()), parts[2 + layer]
            gru_step(inputs, of_states[1 + layer], x, x)
        return x


class GRUDirection(nn.Module):
    """One layer and direction of an encoder, by products and a loop.

    Args:
        gru: supplies the parameters
        name: of the layer and direction, ``0`` or ``0_reverse``
        precision: of the products
    """

    def __init__(self, gru: nn.Module, name: str, precision: str):
        super().__init__()
        self.inputs, self.state = (
            pack(getattr(gru, f"weight_{part}_l{name}"), getattr(gru, f"bias_{part}_l{name}"), precision)
            for part in ("ih", "hh")
        )
        self.size = int(gru.hidden_size)
        self.reverse, self.open = name.endswith("reverse"), -CLOSED  # TorchScript reads no globals

    def forward(self, x: Tensor, padding: Optional[Tensor], last: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
        """See :meth:`fairseq_attn_plugin.decoding.packed_encoder.Direction.forward`; there is no cell state.

        On padding the update gate is open, so that the state stays.
        """
        steps, rows, size = x.size(0), x.size(1), self.size
        gates = self.inputs(x.flatten(0, 1)).view(steps, rows, -1)
        if padding is not None:
            gates.flatten(0, 1)[:, size : 2 * size].index_fill_(0, padding, self.open)
        hidden, outputs = x.new_zeros(rows, size), x.new_empty(steps, rows, size)
        for step in range(steps):
            position = steps - 1 - step if self.reverse else step
            gru_step(gates[position], self.state(hidden), hidden, outputs[position])
            hidden = outputs[position]
        return outputs, hidden if last is None else outputs.gather(0, last).squeeze(0)
