"""The kinds of recurrent layers of encoders and decoders, ``--rnn lstm`` and ``--rnn gru``, and their dropout.

A module keeps its layers under the name of their kind, so that a checkpoint says what they are
(``encoder.lstm.weight_ih_l0``, ``decoder.gru.weight_hh_l1``).
"""

from typing import Any, Dict, Optional, Sequence, Tuple, Type

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor, nn

from ..ops.devices import constant, on_gpu
from ..ops.dropout import dropout, dropout_mask
from ..ops.gru import gru_layer
from ..ops.lstm import CLOSED, computed_by_layers, lstm_layer

KINDS: Dict[str, Type[nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU}
STATES = {"lstm": ("hidden", "cell"), "gru": ("hidden",)}  # what a layer of each kind hands to its next step


class Dropout(FairseqDropout):
    """fairseq's dropout module with the masks of :mod:`fairseq_attn_plugin.ops.dropout`; ``--retain-dropout`` keeps it
    in inference."""

    def forward(self, x: Tensor, inplace: bool = False) -> Any:
        return dropout(x, self.p, self.training or self.apply_during_inference)

    def mask(self, like: Tensor, shape: Sequence[int]) -> Optional[Tensor]:
        """A :func:`~fairseq_attn_plugin.ops.dropout.dropout_mask`; None where nothing is dropped."""
        drops = self.p > 0 and (self.training or self.apply_during_inference)
        return dropout_mask(like, shape, self.p) if drops else None


def uniform_(module: nn.Module, bound: float = 0.1) -> nn.Module:
    """Draws all parameters of ``module`` uniformly from [-bound, bound] and returns it.

    Stock fairseq and the papers initialise LSTMs in this way.
    """
    for parameter in module.parameters():
        nn.init.uniform_(parameter, -bound, bound)
    return module


class Recurrent(nn.Module):
    """A module with recurrent layers, which are called by their kind, ``lstm`` or ``gru``."""

    kind: str

    def add_layers(self, kind: str, inputs: int, units: int, layers: int, dropout: float, **options: Any) -> None:
        """Makes the layers; ``dropout`` is between them."""
        options.update(dropout=dropout if layers > 1 else 0.0, batch_first=True)
        self.kind = kind
        self.add_module(kind, uniform_(KINDS[kind](inputs, units, layers, **options)))

    @property
    def rnn(self) -> nn.RNNBase:
        """The layers."""
        return getattr(self, self.kind)


@torch.no_grad()
def forget_bias_(lstm: nn.Module, value: float) -> None:
    """Makes ``value`` the bias of all forget gates. torch has two biases, whose sum counts: b_ih gets it, b_hh zero."""
    gate = slice(lstm.hidden_size, 2 * lstm.hidden_size)  # of input, forget, cell, output
    for name, bias in lstm.named_parameters():
        if name.startswith("bias_"):
            bias[gate] = value if name.startswith("bias_ih") else 0.0


@constant
def _closed(rows: int, kind: str, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The last column of :func:`with_padding_input`."""
    gates = (CLOSED, -CLOSED, 0.0, CLOSED) if kind == "lstm" else (0.0, -CLOSED, 0.0)
    return torch.tensor(gates, dtype=dtype).repeat_interleave(rows // len(gates)).unsqueeze(1).to(device)


def with_padding_input(weight: Tensor, kind: str = "lstm") -> Tensor:
    """The input weight of a layer, ``[gates H, I]``, with one more input, ``[gates H, I + 1]``.

    The input is 1 on padding and 0 on words. On padding an LSTM's input and output gates are closed and its forget gate
    is open: c_t = c_{t-1} and h_t = 0, exactly. A GRU's update gate is open: h_t = h_{t-1}, up to rounding, and exactly
    where that is zero.
    """
    return torch.cat([weight, _closed(len(weight), kind, weight.dtype, weight.device)], dim=1)


def rnn_layer(
    x: Tensor,
    rnn: nn.RNNBase,
    layer: int,
    states: Optional[Tuple[Tensor, ...]] = None,
    padding: Optional[Tensor] = None,
) -> Tuple[Tensor, Optional[Tensor]]:
    """One layer by :func:`~fairseq_attn_plugin.ops.lstm.lstm_layer` or :func:`~fairseq_attn_plugin.ops.gru.gru_layer`:
    hidden states ``[T, R, directions * H]``, and an LSTM's last cell states ``[directions, R, H]``."""
    if isinstance(rnn, nn.LSTM):
        return lstm_layer(x, rnn, layer, states, padding)  # type: ignore[arg-type]
    return gru_layer(x, rnn, layer, None if states is None else states[0], padding), None


def run(x: Tensor, rnn: nn.RNNBase, states: Tuple[Tensor, ...], training: bool) -> Tuple[Tensor, Tuple[Tensor, ...]]:
    """What ``rnn(x, states)`` computes for a module of one direction, by layers of our own where torch's are worse.

    Args:
        x: ``[R, T, I]``
        rnn: batch first
        states: of the kind, ``[layers, R, H]`` each
        training: whether there is dropout between the layers

    Returns:
        hidden states ``[R, T, H]``, and the last states
    """
    ours = computed_by_layers(x, rnn)
    # cuDNN's dropout has a state, which torch makes anew after a seed: CUDA graphs would read the memory of the old one
    if not ours and not (on_gpu(x) and training and rnn.dropout > 0):
        hidden, last = rnn(x, states if len(states) > 1 else states[0])
        return hidden, last if isinstance(last, tuple) else (last,)
    outputs, last_hidden, last_cell = x.transpose(0, 1), [], []
    for layer in range(rnn.num_layers):
        if layer:
            outputs = dropout(outputs, rnn.dropout, training)
        start = tuple(state[layer : layer + 1] for state in states)
        if ours:
            outputs, cell = rnn_layer(outputs, rnn, layer, start)
        elif isinstance(rnn, nn.LSTM):
            outputs, _, cell = torch.lstm(outputs, start, rnn.all_weights[layer], True, 1, 0.0, training, False, False)
        else:
            outputs, _ = torch.gru(outputs, *start, rnn.all_weights[layer], True, 1, 0.0, training, False, False)
            cell = None
        last_hidden.append(outputs[-1])
        last_cell += [] if cell is None else [cell]
    return outputs.transpose(0, 1), (torch.stack(last_hidden), *([torch.cat(last_cell)] if last_cell else []))
