"""The recurrent layers of a decoder, one step at a time.

A decoder with input feeding, or with an attention that looks back, runs one step after another. Layer l of step t reads
the layer below (the first one y_{t-1} and what is fed) and its own state:

    LSTM:  gates_tl = W_l [x_tl; h_{t-1,l}] + b_l,    h_tl, c_tl = lstm_cell(gates_tl, c_{t-1,l})
    GRU:   h_tl = gru_cell(W_l x_tl + b_l, U_l h_{t-1,l} + b'_l, h_{t-1,l})

Everything that does not depend on the recurrence stays outside the loop: the first layer's product with all embeddings,
an LSTM's joined matrices [W_input, W_hidden], and the dropout masks of all steps. The parameters are those of an
``nn.LSTM`` or ``nn.GRU``, so that a decoder has the same ones with and without a loop.
"""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from ..ops.deferred import linear, share, shared_in_pass
from ..ops.dropout import dropout_mask
from ..ops.gru_cell import gru_cell
from ..ops.lstm_cell import lstm_cell
from ..ops.precision import product_type
from ..ops.tanh import tanh
from .dropout import Dropout

__all__ = ["DropoutMasks", "LayerStates", "SteppedGRU", "SteppedLSTM", "output_in_loop", "step_weights", "stepped"]


class LayerStates(NamedTuple):
    """The state of L layers, each ``[R, Ds]``."""

    hidden: Tuple[Tensor, ...]
    cell: Tuple[Tensor, ...]  # empty in GRUs

    @classmethod
    def unstack(cls, hidden: Tensor, cell: Optional[Tensor]) -> LayerStates:
        """From ``[R, L, Ds]``."""
        return cls(hidden.unbind(1), () if cell is None else cell.unbind(1))

    def stack(self) -> Tuple[Tensor, Optional[Tensor]]:
        """Hidden and cell states, ``[R, L, Ds]`` each; None for the cell states of GRUs."""
        return torch.stack(self.hidden, dim=1), torch.stack(self.cell, dim=1) if self.cell else None


class DropoutMasks:
    """The dropout masks of all layers and steps, drawn in one call.

    Args:
        module: says whether there is dropout, and its probability
        like: ``[R, T, ...]``, a tensor of the rows and steps, for device and precision
        layers: number of layers with dropout at every step
        size: Ds
    """

    def __init__(self, module: Dropout, like: Tensor, layers: int, size: int):
        self.masks: Optional[List[Tuple[Tensor, ...]]] = None
        if layers and module.p > 0 and (module.training or module.apply_during_inference):
            rows, steps = like.shape[:2]
            masks = dropout_mask(like, (layers, steps, rows, size), module.p)
            self.masks = [layer.unbind(0) for layer in masks.unbind(0)]

    def __call__(self, x: Tensor, layer: int, step: int) -> Tensor:
        """Applies the mask of one layer and step to ``x`` ``[R, Ds]``."""
        return x if self.masks is None else x * self.masks[layer][step]


def step_weights(rnn: nn.RNNBase, embed_dim: int) -> List[Tensor]:
    """The matrices of every layer's steps, without the first layer's columns for the ``embed_dim`` embedding units.

    A layer of an LSTM has one, [W_input, W_hidden]; a layer of a GRU has two, W_input and W_hidden. Prepared once: in
    training for all steps, in incremental decoding for all calls with the same state.
    """
    weights = []
    for layer in range(rnn.num_layers):
        parts = [
            getattr(rnn, f"weight_ih_l{layer}")[:, 0 if layer else embed_dim :],
            getattr(rnn, f"weight_hh_l{layer}"),
        ]
        weights += [torch.cat(parts, dim=1)] if isinstance(rnn, nn.LSTM) else parts
    return [share(weight) for weight in weights]


def _of_embeddings(rnn: nn.RNNBase, embeddings: Tensor, bias: Tensor) -> List[Tensor]:
    """The embeddings' share of the first layer's gates with a bias, ``[R, gates Ds]`` for each of T steps."""
    rows, steps, embed_dim = embeddings.shape
    words = embeddings.transpose(0, 1).reshape(steps * rows, -1)
    gates = linear(words, share(rnn.weight_ih_l0[:, :embed_dim]), bias, product_type(embeddings))
    return list(gates.view(steps, rows, -1).unbind(0))


class SteppedLSTM:
    """The layers of an LSTM over T steps whose input is partly known beforehand (embeddings) and partly fed.

    Args:
        lstm: supplies parameters; its input is the embedding and what is fed, side by side
        weights: :func:`step_weights` of it
        embeddings: ``[R, T, E]``
        dropout: masks of the layers, applied between them
    """

    def __init__(self, lstm: nn.LSTM, weights: List[Tensor], embeddings: Tensor, dropout: DropoutMasks):
        self.weights, self.dropout = weights, dropout
        self.kind = product_type(embeddings)  # of the gates
        steps = embeddings.size(1)
        # [layer][step]: biases [4 Ds], and in the first layer also the embeddings' share of the gates, [R, 4 Ds]
        self.known: List[List[Tensor]] = []
        for layer in range(lstm.num_layers):
            bias = getattr(lstm, f"bias_ih_l{layer}") + getattr(lstm, f"bias_hh_l{layer}")
            self.known.append([bias] * steps if layer else _of_embeddings(lstm, embeddings, bias))

    def step(self, t: int, fed: Optional[Tensor], states: LayerStates) -> LayerStates:
        """The states after step ``t``, counted from 0.

        Args:
            t: which of the T steps
            fed: ``[R, F]``, or None without input feeding
            states: after the previous step
        """
        hidden, cell, x = [], [], fed
        for layer, (weight, h, c) in enumerate(zip(self.weights, *states)):
            read = h if x is None else torch.cat([x, h], dim=1)
            new_hidden, new_cell = lstm_cell(linear(read, weight, self.known[layer][t], self.kind), c)
            hidden.append(new_hidden)
            cell.append(new_cell)
            if layer + 1 < len(self.weights):
                x = self.dropout(new_hidden, layer, t)
        return LayerStates(tuple(hidden), tuple(cell))


class SteppedGRU:
    """As :class:`SteppedLSTM`, of a GRU."""

    def __init__(self, gru: nn.GRU, weights: List[Tensor], embeddings: Tensor, dropout: DropoutMasks):
        self.weights, self.dropout = list(zip(weights[::2], weights[1::2])), dropout
        self.kind = product_type(embeddings)
        self.biases = [(getattr(gru, f"bias_ih_l{k}"), getattr(gru, f"bias_hh_l{k}")) for k in range(gru.num_layers)]
        self.known = _of_embeddings(gru, embeddings, self.biases[0][0])

    def step(self, t: int, fed: Optional[Tensor], states: LayerStates) -> LayerStates:
        """See :meth:`SteppedLSTM.step`."""
        hidden, x = [], fed
        for layer, ((of_input, of_state), h, (b_input, b_state)) in enumerate(
            zip(self.weights, states.hidden, self.biases)
        ):
            inputs = b_input if layer else self.known[t]
            if x is not None:
                inputs = linear(x, of_input, inputs, self.kind)
            hidden.append(gru_cell(inputs, linear(h, of_state, b_state, self.kind), h))
            if layer + 1 < len(self.weights):
                x = self.dropout(hidden[-1], layer, t)
        return LayerStates(tuple(hidden), ())


def stepped(
    rnn: nn.RNNBase, weights: List[Tensor], embeddings: Tensor, dropout: DropoutMasks
) -> Union[SteppedLSTM, SteppedGRU]:
    """The layers of either kind, step by step."""
    if isinstance(rnn, nn.LSTM):
        return SteppedLSTM(rnn, weights, embeddings, dropout)
    assert isinstance(rnn, nn.GRU)
    return SteppedGRU(rnn, weights, embeddings, dropout)


def output_in_loop(
    projection: Optional[nn.Module], dropout: DropoutMasks, layer: int
) -> Callable[[int, Optional[Tensor], Tensor], Tensor]:
    """A function of t, c_t ``[R, Dh]`` and s_t ``[R, Ds]`` that returns o_t = tanh(W_o [c_t; s_t]), with dropout.

    The gradient of W_o is summed once, after the loop.

    Args:
        projection: W_o; without it o_t = s_t, of a decoder without attention
        dropout: its masks of ``layer`` are applied
        layer: see ``dropout``
    """
    if projection is None:
        return lambda t, context, hidden: dropout(hidden, layer, t)
    weight = shared_in_pass(projection.weight)

    def output(t: int, context: Optional[Tensor], hidden: Tensor) -> Tensor:
        assert context is not None
        return dropout(tanh(linear(torch.cat([context, hidden], dim=1), weight)), layer, t)

    return output
