"""The encoder of inference, with packed products.

It computes what :class:`fairseq_attn_plugin.modules.encoder.LSTMEncoder` computes. On padding the input gate is closed
and the forget gate open: the cell state stays, c_t = c_{t-1}, exactly. In float32 a layer is one call of oneDNN. In
other precisions, or where torch lacks that call, the share of the inputs in the gates is one product for all words of
the batch, and a loop does the rest. GRUs (:mod:`fairseq_attn_plugin.decoding.packed_gru`) always have that loop.

Shapes: B sentences, N source positions, L layers, E units of an embedding, H units, Dh units of both directions.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ..modules.encoder import LSTMEncoder, ends_of_words
from ..modules.rnn import with_padding_input
from ..ops.lstm_cell import CLOSED
from .packed_gru import GRUDirection
from .products import pack
from .step_modules import compiled, gate_bias, gate_order, lstm_cell_

__all__ = ["PackedEncoder"]

LSTM = 2  # the number of this kind of layer in torch


class Direction(nn.Module):
    """One layer and direction, by products and a loop.

    Args:
        lstm: supplies the parameters
        name: of the layer and direction, ``0`` or ``0_reverse``
        precision: of the products
    """

    def __init__(self, lstm: nn.LSTM, name: str, precision: str):
        super().__init__()
        self.inputs = pack(gate_order(getattr(lstm, f"weight_ih_l{name}")), gate_bias(lstm, name), precision)
        self.state = pack(gate_order(getattr(lstm, f"weight_hh_l{name}")), None, precision)
        self.size = lstm.hidden_size
        self.reverse, self.closed = name.endswith("reverse"), CLOSED  # TorchScript reads no globals

    def forward(self, x: Tensor, padding: Optional[Tensor], last: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
        """Reads a batch.

        Args:
            x: ``[N, B, E]``
            padding: numbers n B + b of the positions that are padding; None without padding
            last: ``[1, B, H]``, the position that is read last, in all units; None without padding

        Returns:
            states ``[N, B, H]``, meaningless on padding; the last hidden and cell state ``[B, H]``
        """
        steps, rows, size = x.size(0), x.size(1), self.size
        gates = self.inputs(x.flatten(0, 1)).view(steps, rows, -1)
        if padding is not None:
            flat = gates.flatten(0, 1)
            flat[:, :size].index_fill_(0, padding, self.closed)
            flat[:, size : 2 * size].index_fill_(0, padding, -self.closed)
        hidden, cell, outputs = x.new_zeros(rows, size), x.new_zeros(rows, size), x.new_empty(steps, rows, size)
        for step in range(steps):
            position = steps - 1 - step if self.reverse else step
            now = gates[position]
            lstm_cell_(now.add_(self.state(hidden)) if step > 0 else now, cell, outputs[position])
            hidden = outputs[position]
        if last is not None:
            hidden = outputs.gather(0, last).squeeze(0)
        return outputs, hidden, cell * -0.5  # see lstm_cell_


class FusedDirection(nn.Module):
    """As :class:`Direction` in float32, by one call of oneDNN with weights that are packed once.

    Args:
        lstm, name: see there

    Raises:
        AttributeError, RuntimeError: torch lacks the call
    """

    def __init__(self, lstm: nn.LSTM, name: str):
        super().__init__()
        parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        w_input, w_state, *biases = (getattr(lstm, f"{part}_l{name}").detach() for part in parts)
        self.size, self.reverse = lstm.hidden_size, name.endswith("reverse")
        self.inputs, self.state = torch.ops.mkldnn._reorder_mkldnn_rnn_layer_weight(
            with_padding_input(w_input), w_state, self.size, self.reverse, True, False
        )
        self.of_inputs, self.of_state = biases

    def forward(self, x: Tensor, padding: Optional[Tensor], last: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
        """See :meth:`Direction.forward`."""
        zeros = x.new_zeros(1, x.size(1), self.size)
        mark = x.new_zeros(x.size(0), x.size(1), 1)
        if padding is not None:
            mark.view(-1).index_fill_(0, padding, 1.0)
        outputs, hidden, cell, _ = torch.ops.aten.mkldnn_rnn_layer(
            torch.cat([x, mark], 2),
            self.inputs,
            self.state,
            self.of_inputs,
            self.of_state,
            zeros,
            zeros,
            self.reverse,
            [],
            LSTM,
            self.size,
            1,
            True,
            False,
            False,
            False,
        )
        return outputs, (hidden if last is None else outputs.gather(0, last))[0], cell[0]


def _direction(lstm: Any, name: str, precision: str) -> Any:
    """The fastest that torch has for this kind and precision."""
    if isinstance(lstm, nn.GRU):
        return compiled(GRUDirection(lstm, name, precision))
    if precision == "float32" and lstm.weight_ih_l0.dtype == torch.float32 and torch.backends.mkldnn.is_available():
        try:
            return FusedDirection(lstm, name)
        except (AttributeError, RuntimeError):
            pass
    return compiled(Direction(lstm, name, precision))


class PackedEncoder:
    """An encoder with packed weights.

    Args:
        encoder: the encoder of a model, in evaluation mode
        precision: of the products
    """

    def __init__(self, encoder: LSTMEncoder, precision: str = "float32"):
        self.embedding, self.padding_idx = encoder.embed_tokens.weight.detach(), encoder.padding_idx
        names = ("", "_reverse")[: 2 if encoder.bidirectional else 1]
        self.layers = [
            [_direction(encoder.rnn, f"{layer}{name}", precision) for name in names]
            for layer in range(encoder.num_layers)
        ]
        self.size = encoder.rnn.hidden_size

    def __call__(self, src_tokens: Tensor) -> Dict[str, Any]:
        """What ``LSTMEncoder.forward`` returns for ``[B, N]``."""
        is_padding = src_tokens.eq(self.padding_idx)
        pad_mask = is_padding if bool(is_padding.any()) else None
        padding, ends = None, [None, None]
        if pad_mask is not None:
            padding = pad_mask.t().flatten().nonzero().squeeze(1)
            ends = [end.view(1, -1, 1).expand(-1, -1, self.size) for end in ends_of_words(pad_mask)]
        x = torch.nn.functional.embedding(src_tokens.t(), self.embedding)
        states: List[List[Tensor]] = [[], []]  # hidden, cell; a GRU has no cell
        for directions in self.layers:
            outputs, *layer = zip(*(read(x, padding, end) for read, end in zip(directions, ends)))
            x = torch.cat(outputs, dim=2)
            for known, parts in zip(states, layer):
                known.append(torch.cat(parts, dim=1))
        encodings = x.transpose(0, 1)
        if pad_mask is not None:
            encodings = encodings.masked_fill(pad_mask.unsqueeze(2), 0.0)
        return {
            "encodings": encodings.contiguous(),
            "hidden": torch.stack(states[0], dim=1),
            "cell": torch.stack(states[1], dim=1) if states[1] else None,
            "tokens": src_tokens,
            "pad_mask": pad_mask,
            "rows": torch.arange(len(src_tokens), device=src_tokens.device),
        }
