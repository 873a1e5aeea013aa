"""The recurrent encoder of all translation models of this package: LSTM or GRU."""

import warnings
from typing import Any, List, Optional, Tuple

import torch
from torch import Tensor, nn

from ...ops.devices import constant_on_gpu, on_gpu, zeros_of
from ...ops.dropout import dropout
from ...ops.lstm import computed_by_layers
from ...ops.packed import packed_lstm
from ...ops.precision import fixed_weights
from ..rnn import STATES, Dropout, Recurrent, rnn_layer, with_padding_input
from .source_encoder import EncoderOut, SourceEncoder

# cuDNN copies weights that have one more input column at each call; torch says so, and how nn.LSTM would avoid it.
warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk of memory")


class LSTMEncoder(Recurrent, SourceEncoder):
    """A (bidirectional) LSTM or GRU over the source. Its encodings have the coordinates of the given ``src_tokens``.

    fairseq pads on the left by default. For padding on either side, position j of every result belongs to
    ``src_tokens[:, j]``. Stock fairseq's LSTM moves left padding to the right and leaves it there, which shifts its
    alignments in padded batches.

    Args:
        dictionary: source dictionary
        embed_tokens: source embeddings
        hidden_size: units per direction
        num_layers: number of layers
        bidirectional: whether every layer has a second network that reads from right to left
        dropout_in: dropout of the embeddings
        dropout_out: dropout of the encodings, and between layers
        max_source_positions: longest source accepted
        rnn: ``lstm`` or ``gru``
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
        rnn: str = "lstm",
    ):
        super().__init__(dictionary)
        self.embed_tokens = embed_tokens
        self.padding_idx = dictionary.pad()
        self.num_layers, self._directions = num_layers, 1 + bidirectional
        self.max_source_positions = max_source_positions
        self.output_units = hidden_size * (2 if bidirectional else 1)
        self.dropout_in_module = Dropout(dropout_in, module_name=type(self).__name__)
        self.dropout_out_module = Dropout(dropout_out, module_name=type(self).__name__)
        self.states = STATES[rnn]
        sizes = (embed_tokens.embedding_dim, hidden_size, num_layers)
        self.add_layers(rnn, *sizes, dropout_out, bidirectional=bidirectional)

    def forward(
        self, src_tokens: Tensor, src_lengths: Optional[Tensor] = None, train_embeddings: bool = True, **unused: Any
    ) -> EncoderOut:
        """Encodes a batch.

        Args:
            src_tokens: ``[B, N]``, padded on either side
            src_lengths: ignored; the padding says the lengths
            train_embeddings: whether gradients reach the embeddings

        Returns:
            see :mod:`~fairseq_attn_plugin.modules.encoders.source_encoder`; ``hidden`` and ``cell`` are the states
            after the last word, both directions side by side
        """
        pad_mask = src_tokens.eq(self.padding_idx)
        vectors = self.embed_tokens(src_tokens)
        embeddings = self.dropout_in_module(vectors if train_embeddings else vectors.detach())
        padding = pad_mask if on_gpu(pad_mask) or bool(pad_mask.any()) else None
        if computed_by_layers(embeddings, self.rnn):
            encodings, states = self._encode_by_layers(embeddings, padding, ends_of_words(pad_mask))
        elif padding is None and (fixed_weights() is None or self.kind != "lstm"):
            encodings, last = self.rnn(embeddings)
            parts = last if isinstance(last, tuple) else (last,)  # [layers * directions, B, H]
            states = [part.transpose(0, 1).reshape(embeddings.size(0), self.num_layers, -1) for part in parts]
        else:
            encodings, states = self._encode_frozen(embeddings, pad_mask)
        hidden, cell = states if len(states) > 1 else (states[0], None)
        return self.result(src_tokens, padding, self.dropout_out_module(encodings), hidden, cell)

    def _encode_frozen(self, embeddings: Tensor, pad_mask: Tensor) -> Tuple[Tensor, List[Tensor]]:
        """Encodes a batch by layers whose state does not change on padding: encodings ``[B, N, directions * H]`` and
        last states ``[B, layers, directions * H]``.

        One more input (:func:`~fairseq_attn_plugin.modules.rnn.with_padding_input`) keeps the state there. From zeros,
        padding before the first word leaves it at zero, and padding after the last word keeps a cell state; the last
        hidden state is read at the last word that a direction reads. For packed sequences torch has no fused LSTM on
        processors, and needs the lengths on the host, for which a GPU has to be waited for.
        """
        directions = self._directions
        mark = pad_mask.unsqueeze(-1).to(embeddings.dtype)
        zeros = zeros_of(embeddings, directions, embeddings.size(0), self.rnn.hidden_size)
        run, start = (torch.lstm, (zeros, zeros)) if self.kind == "lstm" else (torch.gru, zeros)
        ends = ends_of_words(pad_mask)
        outputs = embeddings
        hidden: List[Tensor] = []
        cells: List[Tensor] = []
        for layer in range(self.num_layers):
            if layer:
                outputs = dropout(outputs, self.rnn.dropout, self.training)
            inputs, packed = torch.cat([outputs, mark], dim=-1), self._packed(layer)
            if packed is None:
                weights = [weight for direction in self._frozen(layer) for weight in direction]
                flags = (self.training, directions == 2, True)
                outputs, _, *last_cell = run(inputs, start, weights, True, 1, 0.0, *flags)  # type: ignore[operator]
            else:
                parts, last_cell = zip(*(one(inputs.transpose(0, 1).contiguous()) for one in packed))
                outputs = torch.cat(parts, dim=-1).transpose(0, 1)
            hidden.append(self._at_ends(outputs, ends))
            cells += [cell for both in last_cell for cell in both]
        if self.kind != "lstm":  # an LSTM has zeros there
            outputs = outputs.masked_fill(pad_mask.unsqueeze(-1), 0.0)
        return outputs, self._stacked(hidden, cells)

    def _frozen(self, layer: int) -> List[Any]:
        """The parameters of a layer's directions, with the input that marks padding."""
        weights = self.rnn.all_weights[layer * self._directions :][: self._directions]
        return [(with_padding_input(w_input, self.kind), *others) for w_input, *others in weights]

    def _packed(self, layer: int) -> Optional[List[Any]]:
        """The directions of a layer in a search, where torch has them packed."""
        fixed = fixed_weights()
        if fixed is None or self.kind != "lstm" or self.rnn.weight_ih_l0.dtype != torch.float32:
            return None

        def pack() -> Optional[List[Any]]:
            try:
                return [packed_lstm(bool(number), *weights) for number, weights in enumerate(self._frozen(layer))]
            except (AttributeError, RuntimeError):
                return None

        return fixed.kept((id(self), layer), pack)

    def _encode_by_layers(
        self, embeddings: Tensor, pad_mask: Optional[Tensor], ends: Tensor
    ) -> Tuple[Tensor, List[Tensor]]:
        """As :meth:`_encode_frozen`, by layers of our own, whose products are in half precision."""
        outputs = embeddings.transpose(0, 1)
        hidden: List[Tensor] = []
        cells: List[Tensor] = []
        padding = None if pad_mask is None else pad_mask.t().reshape(-1).nonzero().squeeze(1)
        for layer in range(self.num_layers):
            if layer:
                outputs = dropout(outputs, self.rnn.dropout, self.training)
            outputs, last_cell = rnn_layer(outputs, self.rnn, layer, padding=padding)
            hidden.append(self._at_ends(outputs.transpose(0, 1), ends))
            cells += [] if last_cell is None else list(last_cell)
        encodings = outputs.transpose(0, 1)
        if pad_mask is not None:
            encodings = encodings.masked_fill(pad_mask.unsqueeze(-1), 0.0)
        return encodings, self._stacked(hidden, cells)

    def _at_ends(self, outputs: Tensor, ends: Tensor) -> Tensor:
        """Of hidden states ``[B, N, directions * H]`` the last of each direction, ``[B, directions * H]``."""
        by_direction = outputs.reshape(*outputs.shape[:2], self._directions, -1)  # [B, N, directions, H]
        index = ends[:, None, : self._directions, None].expand(-1, 1, -1, self.rnn.hidden_size)
        return by_direction.gather(1, index).flatten(1)

    def _stacked(self, hidden: List[Tensor], cells: List[Tensor]) -> List[Tensor]:
        """States ``[B, layers, directions * H]`` of hidden states by layer, of cell states by layer and direction."""
        states = [torch.stack(hidden, dim=1)]
        return states + [torch.cat(cells, dim=-1).view(cells[0].size(0), self.num_layers, -1)] if cells else states


def ends_of_words(pad_mask: Tensor) -> Tensor:
    """Where the network of either direction ends: the positions of the last word and of the first, ``[B, 2]``."""
    size = pad_mask.size(1)
    return _order(size, pad_mask.device).masked_fill(pad_mask.unsqueeze(1), -size).argmax(-1)


@constant_on_gpu
def _order(size: int, device: torch.device) -> Tensor:
    """``[2, N]``, greatest at the last and at the first position."""
    ahead = torch.arange(size, device=device)
    return torch.stack([ahead, -ahead])
