"""The parts of a decoder step around the attention, for inference: packed products, no autograd, few calls.

Each part is a module that TorchScript compiles (:func:`compiled`), because Python's share of a step of one sentence is
as large as that of its products. Shapes: R rows, L layers, H units, F units that are fed, V words of the vocabulary.
"""

from __future__ import annotations

import logging
import warnings
from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..modules.decoder import LSTMDecoder
from ..modules.recurrence import step_weights
from .products import pack

__all__ = [
    "Head",
    "Layers",
    "SoftStep",
    "WordGates",
    "attend",
    "compiled",
    "gate_bias",
    "gate_order",
    "lstm_cell_",
]

logger = logging.getLogger(__name__)

TABLE = 16 << 20  # numbers that a table of the vocabulary may have


def compiled(module: Any) -> Any:
    """The module or function as TorchScript compiles it; itself where torch cannot."""
    try:
        with warnings.catch_warnings():  # torch announces the end of TorchScript
            warnings.simplefilter("ignore", DeprecationWarning)
            return torch.jit.script(module)
    except Exception as error:  # whatever a torch without TorchScript raises: the module does the same, slower
        logger.debug(f"not compiled: {error}")
        return module


def lstm_cell_(gates: Tensor, cell: Tensor, hidden: Tensor) -> None:
    """:func:`fairseq_attn_plugin.ops.lstm_cell.lstm_cell` without autograd, in place.

    A factor of the cell state saves calls too: tanh(c) = 1 - 2 sigmoid(-2 c).

    Args:
        gates: ``[R, 4 H]``, pre-activations of the input, forget and output gates, and twice that of the cell:
            tanh(x) = 2 sigmoid(2 x) - 1, so that one call activates all; overwritten
        cell: ``[R, H]``, -2 c, becomes that of the next step
        hidden: ``[R, H]``, takes the hidden state
    """
    i, f, o, g = gates.sigmoid_().chunk(4, dim=1)
    cell.mul_(f).addcmul_(i, g, value=-4.0).add_(i, alpha=2.0)
    torch.addcmul(o, o, cell.sigmoid(), value=-2.0, out=hidden)


def gate_order(x: Tensor) -> Tensor:
    """Rows of torch's order (input, forget, cell, output) in that of :func:`lstm_cell_`."""
    i, f, g, o = x.detach().chunk(4, dim=0)
    return torch.cat([i, f, o, 2 * g])


def gate_bias(lstm: nn.Module, layer: str) -> Tensor:
    """Both biases ``[4 H]`` of a layer, such as ``0`` or ``0_reverse``, in that order."""
    return gate_order(getattr(lstm, f"bias_ih_l{layer}") + getattr(lstm, f"bias_hh_l{layer}"))


class WordGates:
    """The previous word's share of the first layer's gates, and the bias: ``[R]`` to ``[R, 4 H]``, or ``[R, 3 H]`` of
    a GRU.

    They are a table of the vocabulary in full precision, unless it is too large.
    """

    def __init__(self, decoder: LSTMDecoder, precision: str):
        self.embedding = decoder.embed_tokens.weight.detach()
        weight: Tensor = decoder.rnn.weight_ih_l0[:, : self.embedding.size(1)].detach()
        bias: Tensor = decoder.rnn.bias_ih_l0.detach()
        if decoder.kind == "lstm":
            weight, bias = gate_order(weight), gate_bias(decoder.rnn, "0")
        self.table: Optional[Tensor] = None
        if len(self.embedding) * len(bias) <= TABLE:
            self.table = F.linear(self.embedding, weight, bias)
        else:
            self.product = pack(weight, bias, precision)

    def __call__(self, tokens: Tensor) -> Tensor:
        if self.table is None:
            return self.product(self.embedding.index_select(0, tokens))
        return self.table.index_select(0, tokens)


class Layers(nn.Module):
    """The LSTM layers of a decoder. What they hand on is one matrix [feed; h_1; ...; h_L; -2 c_1; ...; -2 c_L], see
    :func:`lstm_cell_`. A step writes into it: what a layer reads, h of the layer below and its own, then stands side by
    side."""

    def __init__(self, decoder: LSTMDecoder, precision: str):
        super().__init__()
        weights = step_weights(decoder.rnn, decoder.embed_tokens.embedding_dim)
        self.first = pack(gate_order(weights[0]), None, precision)
        self.others = nn.ModuleList(
            pack(gate_order(weight), gate_bias(decoder.rnn, str(layer)), precision)
            for layer, weight in enumerate(weights[1:], 1)
        )
        self.feed, self.size, self.layers = decoder.feed_size, int(decoder.hidden_size), int(decoder.num_layers)

    def forward(self, base: Tensor, recurrent: Tensor) -> Tensor:
        """One step.

        Args:
            base: ``[R, 4 H]``, of :class:`WordGates`; overwritten
            recurrent: ``[R, F + 2 L H]``; h and c become those of this step

        Returns:
            the top state ``[R, H]``, a part of ``recurrent``
        """
        feed, size = self.feed, self.size
        cells = feed + self.layers * size
        hidden = recurrent.narrow(1, feed, size)
        gates = base.add_(self.first(recurrent.narrow(1, 0, feed + size)))
        lstm_cell_(gates, recurrent.narrow(1, cells, size), hidden)
        for below, product in enumerate(self.others):
            gates = product(recurrent.narrow(1, feed + below * size, 2 * size))
            hidden = recurrent.narrow(1, feed + (below + 1) * size, size)
            lstm_cell_(gates, recurrent.narrow(1, cells + (below + 1) * size, size), hidden)
        return hidden


class Head(nn.Module):
    """From the context and the top state to what is fed and the logits.

    Args:
        decoder: supplies the parameters
        precision: of the products
        projected: whether the context comes as its share of the output, see :class:`SoftStep`
    """

    def __init__(self, decoder: LSTMDecoder, precision: str, projected: bool = False):
        super().__init__()
        fc, layer = decoder.additional_fc, decoder.output_projection
        self.output: Any = None
        if layer is not None:
            weight = layer.weight[:, -decoder.hidden_size if projected else 0 :]
            self.output = pack(2 * weight, None, precision)  # tanh(x) = 2 sigmoid(2 x) - 1
        self.projected = projected
        self.additional = None if fc is None else pack(fc.weight, fc.bias, precision)
        self.feeds_context = decoder.input_feeding == "context"
        self.feeds = decoder.feed_size

    def forward(self, context: Optional[Tensor], hidden: Tensor, recurrent: Tensor) -> Tensor:
        """One step.

        Args:
            context: ``[R, Dh]``, or its share ``[R, H]``, or None without attention
            hidden: ``[R, H]``
            recurrent: of :class:`Layers`, takes what is fed

        Returns:
            the features from which the vocabulary is projected
        """
        feed = features = hidden
        if context is not None:
            if self.output is not None:  # alone: what follows is compiled only then
                if self.projected:
                    features = self.output(hidden).add_(context)
                else:
                    features = self.output(torch.cat([context, hidden], 1))
                features = features.sigmoid_().mul_(2.0).sub_(1.0)
            else:
                features = torch.cat([context, hidden], 1)
            feed = context if self.feeds_context else features
        if self.feeds > 0:
            recurrent.narrow(1, 0, self.feeds).copy_(feed)
        if self.additional is not None:
            features = self.additional(features)
        return features


def attend(
    query: Tensor, keys: Tensor, values: Tensor, bias: Optional[Tensor], empty: Optional[Tensor], scale: float
) -> Tuple[Tensor, Tensor]:
    """Soft attention by products with keys: a_j = softmax_j(scale s . k_j).

    Args:
        query: ``[R, D]``, the rows of a sentence together
        keys: ``[B, N, D]``
        values: ``[B, N, D']``, the encodings, or what is to be averaged instead
        bias: ``[B, 1, N]``, 0 on words and minus infinity on padding, or None
        empty: ``[B, 1, 1]``, True for sentences of padding only, or None without such sentences
        scale: of the scores

    Returns:
        context ``[R, D']`` and weights ``[R, N]``; those of a sentence of padding only are zero
    """
    rows = query.size(0)
    if scale != 1.0:
        query = query * scale
    queries = query.view(keys.size(0), -1, query.size(1))
    if bias is None:
        scores = torch.bmm(queries, keys.transpose(1, 2))
    else:
        scores = torch.baddbmm(bias, queries, keys.transpose(1, 2))
    weights = scores.softmax(2)
    if empty is not None:
        weights = weights.masked_fill_(empty, 0.0)  # they were NaN
    return torch.bmm(weights, values).view(rows, -1), weights.view(rows, -1)


class SoftStep(nn.Module):
    """All of a step but the words and the vocabulary, with the attention of :func:`attend`.

    The output is tanh(W_c c + W_s s). Because W_c c = sum_j a_j W_c h_j, the share of the context needs no product at a
    step where 2 W_c h_j is computed once per sentence (:class:`~fairseq_attn_plugin.decoding.start.Start`) and takes
    the place of h_j.

    Args:
        layers: the recurrent layers
        head: what follows the attention
        scale: of the scores
    """

    def __init__(self, layers: nn.Module, head: Head, scale: float):
        super().__init__()
        self.layers, self.head, self.scale = layers, head, scale

    def forward(
        self,
        base: Tensor,
        recurrent: Tensor,
        keys: Tensor,
        values: Tensor,
        bias: Optional[Tensor],
        empty: Optional[Tensor],
    ) -> Tuple[Tensor, Tensor]:
        """The features and the weights ``[R, N]``; ``recurrent`` becomes that of the next step. See the parts for the
        arguments."""
        hidden = self.layers(base, recurrent)
        context, weights = attend(hidden, keys, values, bias, empty, self.scale)
        return self.head(context, hidden, recurrent), weights
