"""What precedes the first decoder step of inference.

Shapes: B sentences, N source positions, Dh units of an encoding.
"""

from __future__ import annotations

from typing import Any, Tuple

import torch
from torch import Tensor, nn

from ..attention.scores import GeneralScore
from ..modules.decoder import LSTMDecoder
from ..modules.rnn import STATES
from .products import pack

__all__ = ["Start"]


class Start(nn.Module):
    """The decoder's initial state, and what :func:`~fairseq_attn_plugin.decoding.step_modules.attend` reads.

    Args:
        decoder: supplies the parameters
        encoder_layers: how many
        precision: of the products
        keys: whether keys are wanted; otherwise the encodings take their place
        values: whether the encodings' shares of the output are wanted; otherwise the encodings take their place
    """

    def __init__(self, decoder: LSTMDecoder, encoder_layers: int, precision: str, keys: bool, values: bool):
        super().__init__()
        hidden, cell = decoder.hidden_projection, decoder.cell_projection
        # -2 times the weight: see lstm_cell_
        self.hidden = None if hidden is None else pack(hidden.weight, hidden.bias, precision)
        self.cell = None if cell is None else pack(-2 * cell.weight, -2 * cell.bias, precision)
        score: Any = getattr(decoder.attention, "score", None)
        projected = keys and isinstance(score, GeneralScore)
        self.keys = pack(score.scaled(score.projection.weight), None, precision) if projected else None
        output: Any = decoder.output_projection
        self.values = pack(2 * output.weight[:, : -decoder.hidden_size], None, precision) if values else None
        self.zero, self.feed = decoder.zero_init, decoder.feed_size
        self.has_cell = "cell" in STATES[decoder.kind]
        self.units = len(STATES[decoder.kind]) * decoder.num_layers * decoder.hidden_size
        self.layers = decoder.sources_of_layers(encoder_layers)
        self.all_layers = self.layers == list(range(encoder_layers))

    def forward(self, encodings: Tensor, hidden: Tensor, cell: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Before the first step.

        Args:
            encodings: ``[B, N, Dh]``
            hidden, cell: ``[B, encoder layers, Dh]``; the hidden states in both where the encoder has no cells

        Returns:
            ``recurrent`` of :class:`~fairseq_attn_plugin.decoding.step_modules.Layers`, keys ``[B, N, D]`` and
            values ``[B, N, H]``
        """
        rows, positions, units = encodings.size(0), encodings.size(1), encodings.size(2)
        keys = values = encodings
        if self.keys is not None:
            keys = self.keys(encodings.view(-1, units)).view(rows, positions, -1)
        if self.values is not None:
            values = self.values(encodings.view(-1, units)).view(rows, positions, -1)
        if self.zero:
            return encodings.new_zeros(rows, self.feed + self.units), keys, values
        if not self.all_layers:
            layers = torch.tensor(self.layers, device=hidden.device)
            hidden, cell = hidden.index_select(1, layers), cell.index_select(1, layers)
        hidden, cell = hidden.view(-1, units), cell.view(-1, units)
        hidden = hidden if self.hidden is None else self.hidden(hidden)
        parts = [hidden.view(rows, -1)]
        if self.has_cell:
            cell = cell * -2.0 if self.cell is None else self.cell(cell)
            parts.append(cell.view(rows, -1))
        return torch.cat([encodings.new_zeros(rows, self.feed)] + parts, 1), keys, values
