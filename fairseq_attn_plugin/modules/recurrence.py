"""The recurrent layers of a decoder, one step at a time.

A decoder with input feeding, or with an attention that looks back, runs one step after another. Layer l of step t reads
the layer below (the first one y_{t-1} and what is fed) and its own state:

    LSTM:  gates_tl = W_l [x_tl; h_{t-1,l}] + b_l,    h_tl, c_tl = lstm_cell(gates_tl, c_{t-1,l})
    GRU:   h_tl = gru_cell(W_l x_tl + b_l, U_l h_{t-1,l} + b'_l, h_{t-1,l})

Everything that does not depend on the recurrence stays outside the loop: the first layer's product with all embeddings,
an LSTM's joined matrices [W_input, W_hidden], and the dropout masks of all steps. The parameters are those of an
``nn.LSTM`` or ``nn.GRU``, so that a decoder has the same ones with and without a loop.

A step on a GPU costs what it launches. :class:`FusedLSTM` therefore has torch's fused cell, joins the products that
read the same state, and copies nothing.
"""

from typing import List, NamedTuple, Optional, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.deferred import accumulate, linear, share
from ..ops.gru import gru_cell
from ..ops.lstm import fused_lstm_cell, has_fused_cell, lstm_cell
from ..ops.precision import fixed_weights, kept_in_pass, product_type
from .decoder_state import DecoderInputs
from .rnn import Dropout

MOST_GATES = 2**24  # numbers in a table of gates: 64 MiB in float32, and 0.2 seconds to compute them


class LayerStates(NamedTuple):
    """The state of L layers, each ``[R, Ds]``."""

    hidden: Tuple[Tensor, ...]
    cell: Tuple[Tensor, ...]  # empty in GRUs


class DropoutMasks:
    """The dropout masks of all layers and steps, drawn in one call.

    Args:
        module: says whether there is dropout, and its probability
        like: ``[R, T, ...]``, a tensor of the rows and steps, for device and precision
        layers: number of layers with dropout at every step
        size: Ds
    """

    def __init__(self, module: Dropout, like: Tensor, layers: int, size: int):
        rows, steps = like.shape[:2]
        self.drawn = module.mask(like, (layers, steps, rows, size)) if layers else None
        self.masks = None if self.drawn is None else [layer.unbind(0) for layer in self.drawn.unbind(0)]

    def with_ones(self, layers: int) -> Optional[List[Tuple[Tensor, ...]]]:
        """Of each of the lowest layers and every step, ones beside the mask, ``[2, R, Ds]``; None without dropout."""
        if self.drawn is None or not layers:
            return None
        drawn = self.drawn[:layers].unsqueeze(2)
        return [layer.unbind(0) for layer in torch.cat([torch.ones_like(drawn), drawn], dim=2).unbind(0)]

    def __call__(self, x: Tensor, layer: int, step: int) -> Tensor:
        """Applies the mask of one layer and step to ``x`` ``[R, Ds]``."""
        return x if self.masks is None else x * self.masks[layer][step]


def step_weights(rnn: nn.RNNBase, embed_dim: int) -> List[Tensor]:
    """The matrices of every layer's steps, without the first layer's columns for the ``embed_dim`` embedding units.

    A layer of an LSTM has one, [W_input, W_hidden]; a layer of a GRU, or of an LSTM with a fused cell, has two, W_input
    and W_hidden. Prepared once: in training for all steps, in incremental decoding for all calls with the same state.
    """
    fixed = fixed_weights()
    if fixed is not None:
        return fixed.kept(
            (id(rnn), embed_dim), lambda: [one.detach() for one in _step_weights(rnn, embed_dim)], weights=True
        )
    return _step_weights(rnn, embed_dim)


def _step_weights(rnn: nn.RNNBase, embed_dim: int) -> List[Tensor]:
    joined = isinstance(rnn, nn.LSTM) and not has_fused_cell(rnn.weight_ih_l0)
    weights = []
    for layer in range(rnn.num_layers):
        parts = [
            getattr(rnn, f"weight_ih_l{layer}")[:, 0 if layer else embed_dim :],
            getattr(rnn, f"weight_hh_l{layer}"),
        ]
        weights += [torch.cat(parts, dim=1)] if joined else parts
    return [share(weight) for weight in weights]


def gates_of_words(rnn: nn.RNNBase, embeddings: Tensor) -> Optional[Tensor]:
    """The share in the first layer's gates of the embeddings ``[V, E]`` of all words, with its bias: ``[V, gates Ds]``.

    A search whose weights do not change looks words up in this table, in place of a product in every step. None in
    training, and where the table would have more than ``MOST_GATES`` numbers.
    """
    fixed = fixed_weights()
    if fixed is None or len(embeddings) * len(rnn.weight_ih_l0) > MOST_GATES:
        return None
    of_words = rnn.weight_ih_l0[:, : embeddings.size(1)]
    return fixed.kept((id(rnn), "gates"), lambda: F.linear(embeddings, of_words, _bias(rnn, 0)).detach())


def _bias(rnn: nn.RNNBase, layer: int) -> Tensor:
    """What is added to the inputs of a layer's gates; an LSTM has one sum of two biases."""
    bias: Tensor = getattr(rnn, f"bias_ih_l{layer}")
    return bias + getattr(rnn, f"bias_hh_l{layer}") if isinstance(rnn, nn.LSTM) else bias


def _of_embeddings(rnn: nn.RNNBase, inputs: DecoderInputs, kind: torch.dtype) -> List[Tensor]:
    """The embeddings' share of the first layer's gates with a bias, ``[R, gates Ds]`` of type ``kind`` for each of T
    steps."""
    if inputs.are_gates:
        return list(inputs.embeddings.unbind(1))
    rows, steps, embed_dim = inputs.embeddings.shape
    words = inputs.embeddings.transpose(0, 1).reshape(steps * rows, -1)
    gates = linear(words, share(rnn.weight_ih_l0[:, : int(embed_dim)]), _bias(rnn, 0), kind)
    return list(gates.view(steps, rows, -1).unbind(0))


class Stepped:
    """The layers of an LSTM or GRU over T steps whose input is partly known beforehand (embeddings) and partly fed.

    Args:
        rnn: supplies parameters; its input is the embedding and what is fed, side by side
        weights: :func:`step_weights` of it
        inputs: of the T steps
        projection: W_o, where the output is part of the loop; without it o_t = s_t, of a decoder without attention
        dropout: masks of the layers, applied between them and to the output

    Attributes:
        knows_state: whether a step is to be fed c_t alone where [c_t; s_t] is fed: it has multiplied s_t already
    """

    knows_state = False

    def __init__(
        self,
        rnn: nn.RNNBase,
        weights: List[Tensor],
        inputs: DecoderInputs,
        projection: Optional[nn.Module],
        dropout: DropoutMasks,
    ):
        self.dropout = dropout
        # The gradient of W_o is summed once, after the loop.
        self.projection = None if projection is None else kept_in_pass(projection.weight, share)
        layers = range(rnn.num_layers)
        self.joined = len(weights) == len(layers)  # [W_input, W_hidden]
        self.weights = [(weight,) for weight in weights] if self.joined else list(zip(weights[::2], weights[1::2]))
        self.kind = product_type(inputs.embeddings)  # of the gates
        # [layer][step]: biases [gates Ds], and in the first layer also the embeddings' share, [R, gates Ds]
        steps, known = inputs.embeddings.size(1), _of_embeddings(rnn, inputs, self.kind)
        self.known = [known, *([_bias(rnn, layer)] * steps for layer in layers[1:])]
        is_gru = isinstance(rnn, nn.GRU)
        self.biases = [getattr(rnn, f"bias_hh_l{layer}") for layer in layers] if is_gru else None  # of the products U h

    def step(self, t: int, fed: Optional[Tensor], states: LayerStates) -> LayerStates:
        """The states after step ``t``, counted from 0; ``fed`` ``[R, F]``, or None without input feeding."""
        hidden, cells, x = [], [], fed
        for layer, (weights, h) in enumerate(zip(self.weights, states.hidden)):
            known = self.known[layer][t]
            if self.biases is not None:
                gates = known if x is None else linear(x, weights[0], known, self.kind)
                h = gru_cell(gates, linear(h, weights[1], self.biases[layer], self.kind), h)
            elif self.joined:
                read = h if x is None else torch.cat([x, h], dim=1)
                h, c = lstm_cell(linear(read, weights[0], known, self.kind), states.cell[layer])
                cells.append(c)
            else:
                gates = known if x is None else linear(x, weights[0], known)
                h, c = fused_lstm_cell(gates, linear(h, weights[1]), states.cell[layer])
                cells.append(c)
            hidden.append(h)
            if layer + 1 < len(self.weights):
                x = self.dropout(h, layer, t)
        return LayerStates(tuple(hidden), tuple(cells))

    def output(self, t: int, context: Optional[Tensor], hidden: Tensor) -> Tensor:
        """o_t = tanh(W_o [c_t; s_t]) ``[R, Ds]`` of c_t ``[R, Dh]`` and s_t ``[R, Ds]``, with dropout."""
        if self.projection is not None:
            assert context is not None
            hidden = torch.tanh(linear(torch.cat([context, hidden], dim=1), self.projection))
        return self.dropout(hidden, -1, t)


class FusedLSTM:
    """As :class:`Stepped` of an LSTM, with few launches, for many steps on a GPU.

    Products of a state are formed as soon as it is known. h_tl of a lower layer is multiplied by its own hidden matrix,
    for step t + 1, and after dropout by the input matrix of the layer above, in one batched product. s_t of the top
    layer is multiplied by its hidden matrix, by the columns of W_o, and, where [c_t; s_t] is fed, by its columns of
    W_1, in another. Each product is added to what is known of its gates, in place. A step of two layers launches six
    kernels beside the attention's, and two more with a tanh layer. ``--matmul-precision`` does not change these
    products: they are small, and a GPU would spend more time on the casts.

    Args:
        lstm, inputs, projection, dropout: as of :class:`Stepped`
        joined: whether c_t and s_t are fed side by side
    """

    def __init__(
        self, lstm: nn.LSTM, inputs: DecoderInputs, projection: Optional[nn.Module], dropout: DropoutMasks, joined: bool
    ):
        self.dropout = dropout
        rows, _, embed_dim = inputs.embeddings.shape
        top, units = lstm.num_layers - 1, lstm.hidden_size
        kind = lstm.weight_ih_l0.dtype
        self.hidden_weights = [getattr(lstm, f"weight_hh_l{layer}") for layer in range(top + 1)]
        self.known = _of_embeddings(lstm, inputs, kind)
        of_fed = lstm.weight_ih_l0[:, embed_dim:]
        split = of_fed.size(1) - units
        self.of_fed = share(of_fed, kind)
        # of layer l below the top one, [2, 4 Ds, Ds]: its hidden matrix and the input matrix above
        self.pairs = [
            share(torch.stack([self.hidden_weights[layer], getattr(lstm, f"weight_ih_l{layer + 1}")]), kind)
            for layer in range(top)
        ]
        # [layer][step], [2, R, 4 Ds]: what is known of the layer's gates at the next step, and of the gates above
        self.bases = []
        for layer in range(top):
            bias = _bias(lstm, layer + 1)
            own = [*self.known[1:], self.known[0]] if layer == 0 else [bias.new_zeros(bias.shape)] * len(self.known)
            above = bias.expand(rows, -1)
            both = torch.stack([x.expand_as(above) for one in own for x in (one, above)])
            self.bases.append(both.view(len(own), 2, rows, -1).unbind(0))
        of_top, self.of_context, self.parts = [self.hidden_weights[top]], None, [4 * units]
        self.of_fed_context: Optional[Tensor] = None
        self.knows_state = joined and top > 0
        if self.knows_state:
            of_top.append(of_fed[:, split:])
            self.of_fed_context = share(of_fed[:, :split], kind)
            self.parts.append(4 * units)
        if projection is not None:
            of_top.append(projection.weight[:, -units:])
            self.of_context = share(projection.weight[:, :-units], kind)
            self.parts.append(units)
        self.of_top = share(torch.cat(of_top), kind)
        self.pending: Optional[List[Tensor]] = None  # the hidden states' share of the gates of each layer's next step
        self.of_state: List[Tensor] = []  # the top state's share of the next step's gates or of W_o [c; s]
        self.masks = dropout.with_ones(top)
        # where nothing is fed, what is known of the lowest gates comes from the bases
        self.unfed = inputs.embeddings.new_zeros(rows, 4 * units, dtype=kind) if top and not of_fed.size(1) else None

    def step(self, t: int, fed: Optional[Tensor], states: LayerStates) -> LayerStates:
        """See :meth:`Stepped.step`."""
        top = len(self.pairs)
        if self.pending is None:
            self.pending = [F.linear(h, weight) for h, weight in zip(states.hidden, self.hidden_weights)]
            if top:
                self.pending[0] = self.pending[0] + self.known[0]
        if fed is None:
            gates = self.known[t] if self.unfed is None else self.unfed
        elif not top:
            gates = accumulate(self.known[t], fed, self.of_fed)
        elif self.of_fed_context is not None and t:
            gates = accumulate(self.of_state[0], fed, self.of_fed_context)
        else:
            gates = linear(fed, self.of_fed)
        hidden, cells = [], []
        for layer, cell in enumerate(states.cell):
            h, c = fused_lstm_cell(gates, self.pending[layer], cell)
            hidden.append(h)
            cells.append(c)
            if layer < top:
                both = h.expand(2, -1, -1) if self.masks is None else h * self.masks[layer][t]
                self.pending[layer], gates = accumulate(self.bases[layer][t], both, self.pairs[layer]).unbind(0)
        self.pending[top], *self.of_state = linear(hidden[-1], self.of_top).split(self.parts, dim=1)
        return LayerStates(tuple(hidden), tuple(cells))

    def output(self, t: int, context: Optional[Tensor], hidden: Tensor) -> Tensor:
        if self.of_context is not None:
            assert context is not None
            hidden = torch.tanh(accumulate(self.of_state[-1], context, self.of_context))
        return self.dropout(hidden, -1, t)


def stepped(
    rnn: nn.RNNBase,
    embed_dim: int,
    weights: List[Tensor],
    inputs: DecoderInputs,
    projection: Optional[nn.Module],
    dropout: DropoutMasks,
    joined: bool,
) -> Union[Stepped, FusedLSTM]:
    """The layers of either kind, step by step; without ``weights`` these are prepared now."""
    if isinstance(rnn, nn.LSTM) and has_fused_cell(inputs.embeddings) and inputs.embeddings.size(1) > 1:
        return FusedLSTM(rnn, inputs, projection, dropout, joined)  # does not pay for a step of a search
    return Stepped(rnn, weights or step_weights(rnn, embed_dim), inputs, projection, dropout)
