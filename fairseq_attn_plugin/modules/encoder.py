"""The LSTM encoder of all translation models of this package."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from fairseq.models import FairseqEncoder
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..ops.dropout import dropout
from ..ops.lstm_cell import CLOSED
from ..ops.lstm_layer import computed_by_layers, lstm_layer
from .beam import follow
from .dropout import Dropout

__all__ = ["LSTMEncoder", "ends_of_words", "forget_bias_", "uniform_", "with_padding_input"]

EncoderOut = Dict[str, Any]


def uniform_(module: nn.Module, bound: float = 0.1) -> nn.Module:
    """Draws all parameters of ``module`` uniformly from [-bound, bound] and returns it.

    Stock fairseq and the papers initialise LSTMs in this way.
    """
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    return module


@torch.no_grad()
def forget_bias_(lstm: nn.LSTM, value: float) -> None:
    """Makes ``value`` the bias of all forget gates. torch has two biases, whose sum counts: b_ih gets it, b_hh zero."""
    gate = slice(lstm.hidden_size, 2 * lstm.hidden_size)  # of input, forget, cell, output
    for name, bias in lstm.named_parameters():
        if name.startswith("bias_"):
            bias[gate] = value if name.startswith("bias_ih") else 0.0


class LSTMEncoder(FairseqEncoder):
    """A (bidirectional) LSTM over the source. Its encodings have the coordinates of the given ``src_tokens``.

    fairseq pads on the left by default. For padding on either side, position j of every result belongs to
    ``src_tokens[:, j]``. Stock fairseq's LSTM moves left padding to the right and leaves it there, which shifts its
    alignments in padded batches.

    Args:
        dictionary: source dictionary
        embed_tokens: source embeddings
        hidden_size: units per direction
        num_layers: number of layers
        bidirectional: whether every layer has a second LSTM that reads from right to left
        dropout_in: dropout of the embeddings
        dropout_out: dropout of the encodings, and between layers
        max_source_positions: longest source accepted
    """

    def __init__(
        self,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        hidden_size: int,
        num_layers: int = 1,
        bidirectional: bool = False,
        dropout_in: float = 0.1,
        dropout_out: float = 0.1,
        max_source_positions: float = 1e5,
    ):
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.padding_idx = dictionary.pad()
        self.num_layers, self.bidirectional = num_layers, bidirectional
        self.max_source_positions = max_source_positions
        self.output_units = hidden_size * (2 if bidirectional else 1)
        self.dropout_in_module = Dropout(dropout_in, module_name=type(self).__name__)
        self.dropout_out_module = Dropout(dropout_out, module_name=type(self).__name__)
        self.lstm = nn.LSTM(
            embed_tokens.embedding_dim,
            hidden_size,
            num_layers,
            dropout=dropout_out if num_layers > 1 else 0.0,
            bidirectional=bidirectional,
            batch_first=True,
        )
        uniform_(self.lstm)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, train_embeddings: bool = True, **unused: Any
    ) -> EncoderOut:
        """Encodes a batch.

        Args:
            src_tokens: ``[B, N]``, padded on either side
            src_lengths: ignored; the padding says the lengths
            train_embeddings: whether gradients reach the embeddings

        Returns:
            a dictionary:

            - ``encodings`` ``[B, N, Dh]``, zero on padding
            - ``hidden`` and ``cell`` ``[B, layers, Dh]``, the states after the last word, both directions side by side
            - ``tokens`` ``[B, N]``, the words
            - ``pad_mask`` ``[B, N]``, True on padding; None without padding
            - ``rows`` ``[B]``, the sentence of each row of the decoder
        """
        pad_mask = src_tokens.eq(self.padding_idx)
        vectors = self.embed_tokens(src_tokens)
        embeddings = self.dropout_in_module(vectors if train_embeddings else vectors.detach())
        padding = pad_mask if bool(pad_mask.any()) else None
        if computed_by_layers(embeddings):
            encodings, hidden, cell = self._encode_by_layers(embeddings, padding)
        elif padding is None:
            encodings, (hidden, cell) = self.lstm(embeddings)
        else:
            encode = self._encode_frozen if embeddings.device.type == "cpu" else self._encode_packed
            encodings, hidden, cell = encode(embeddings, padding)
        return {
            "encodings": self.dropout_out_module(encodings),
            "hidden": self._join_directions(hidden),
            "cell": self._join_directions(cell),
            "tokens": src_tokens,
            "pad_mask": padding,
            "rows": torch.arange(src_tokens.size(0), device=src_tokens.device),
        }

    def _encode_packed(self, embeddings: Tensor, pad_mask: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        # Packing needs the words first, and at least one of them. A stable sort of the mask moves them there, for
        # padding on either side. Its inverse moves the encodings back to the given coordinates.
        to_front = pad_mask.to(torch.uint8).argsort(dim=1, stable=True)
        lengths = (~pad_mask).sum(1).clamp(min=1)
        packed = pack_padded_sequence(
            _gather(embeddings, to_front), lengths.cpu(), batch_first=True, enforce_sorted=False
        )
        outputs, (hidden, cell) = self.lstm(packed)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=pad_mask.size(1))
        # A row without words was encoded as one padding symbol, which must not count.
        empty = pad_mask.all(dim=1)[None, :, None]
        hidden, cell = hidden.masked_fill(empty, 0.0), cell.masked_fill(empty, 0.0)
        encodings = _gather(outputs, to_front.argsort(dim=1)).masked_fill(pad_mask.unsqueeze(-1), 0.0)
        return encodings, hidden, cell

    def _encode_frozen(self, embeddings: Tensor, pad_mask: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """The same as :meth:`_encode_packed`, by LSTMs whose state does not change on padding.

        One more input (:func:`with_padding_input`) keeps the cell state there. From zero states, padding before the
        first word leaves (h, c) at zero, and padding after the last word keeps c; the last h is read at the last word.
        torch has a fused LSTM for processors, but not for packed sequences of unequal length.
        """
        batch, size, directions = embeddings.size(0), self.lstm.hidden_size, 2 if self.bidirectional else 1
        mark = pad_mask.unsqueeze(-1).to(embeddings.dtype)
        zeros = embeddings.new_zeros(directions, batch, size)
        rows, ends = torch.arange(batch), ends_of_words(pad_mask)
        outputs, hidden, cell = embeddings, [], []
        for layer in range(self.num_layers):
            if layer:
                outputs = dropout(outputs, self.lstm.dropout, self.training)
            weights = []
            for direction in ("", "_reverse")[:directions]:
                w_input, *others = (
                    getattr(self.lstm, f"{part}_l{layer}{direction}")
                    for part in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
                )
                weights += [with_padding_input(w_input), *others]
            outputs, _, last_cell = torch.lstm(
                torch.cat([outputs, mark], dim=-1),
                (zeros, zeros),
                weights,
                True,
                1,
                0.0,
                self.training,
                directions == 2,
                True,
            )
            hidden += [h[rows, end] for h, end in zip(outputs.split(size, dim=-1), ends)]
            cell.append(last_cell)
        encodings = outputs.masked_fill(pad_mask.unsqueeze(-1), 0.0)
        return encodings, torch.stack(hidden), torch.cat(cell)

    def _encode_by_layers(self, embeddings: Tensor, pad_mask: Optional[Tensor]) -> Tuple[Tensor, Tensor, Tensor]:
        """As :meth:`_encode_frozen`, by layers of our own, whose products are in half precision."""
        outputs, hidden, cell = embeddings.transpose(0, 1), [], []
        padding = None if pad_mask is None else pad_mask.t().reshape(-1).nonzero().squeeze(1)
        rows = torch.arange(len(embeddings), device=embeddings.device)
        last = rows.new_tensor(embeddings.size(1) - 1)
        ends = (last, torch.zeros_like(last)) if pad_mask is None else ends_of_words(pad_mask)
        for layer in range(self.num_layers):
            if layer:
                outputs = dropout(outputs, self.lstm.dropout, self.training)
            outputs, last_cell = lstm_layer(outputs, self.lstm, layer, padding=padding)
            hidden += [h[end, rows] for h, end in zip(outputs.split(self.lstm.hidden_size, dim=-1), ends)]
            cell.append(last_cell)
        encodings = outputs.transpose(0, 1)
        if pad_mask is not None:
            encodings = encodings.masked_fill(pad_mask.unsqueeze(-1), 0.0)
        return encodings, torch.stack(hidden), torch.cat(cell)

    def _join_directions(self, states: Tensor) -> Tensor:
        """``[layers * directions, B, H]`` to ``[B, layers, directions * H]``."""
        batch = states.size(1)
        return (
            states.view(self.num_layers, -1, batch, states.size(-1))
            .permute(2, 0, 1, 3)
            .reshape(batch, self.num_layers, -1)
        )

    def reorder_encoder_out(self, encoder_out: EncoderOut, new_order: Tensor) -> EncoderOut:
        """Reorders the rows of the decoder for beam search.

        The hypotheses of a sentence share its encodings: the tensors keep one entry per sentence, and ``rows`` says
        which sentence each row of the decoder translates. Entries move only when sentences do, for example when one of
        them is finished.
        """
        rows, sentences = follow(encoder_out["rows"], new_order)
        if sentences is not None:
            encoder_out = {
                name: None if value is None else value.index_select(0, sentences) for name, value in encoder_out.items()
            }
        return {**encoder_out, "rows": rows}

    def max_positions(self) -> float:
        return self.max_source_positions


def with_padding_input(weight: Tensor) -> Tensor:
    """The input weight of an LSTM, ``[4 H, I]``, with one more input, ``[4 H, I + 1]``.

    The input is 1 on padding and 0 on words. It closes the input gate and opens the forget gate: c_t = c_{t-1},
    exactly.
    """
    closed = weight.new_tensor([CLOSED, -CLOSED, 0.0, 0.0]).repeat_interleave(len(weight) // 4).unsqueeze(1)
    return torch.cat([weight, closed], dim=1)


def ends_of_words(pad_mask: Tensor) -> Tuple[Tensor, Tensor]:
    """Where the LSTM of either direction ends: the positions ``[B]`` of the last word and of the first."""
    positions = torch.arange(pad_mask.size(1), device=pad_mask.device)
    last = positions.masked_fill(pad_mask, 0).amax(1)
    return last, positions.masked_fill(pad_mask, pad_mask.size(1) - 1).amin(1)


def _gather(x: Tensor, index: Tensor) -> Tensor:
    """Permutes the positions of ``x`` ``[B, N, D]`` by ``index`` ``[B, N]``."""
    return x.gather(1, index.unsqueeze(-1).expand(-1, -1, x.size(-1)))
