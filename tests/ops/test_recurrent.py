"""Layers of LSTMs and GRUs of our own against torch's."""

import pytest
import torch
from torch import nn

from fairseq_attn_plugin.ops.gru import gru_layer
from fairseq_attn_plugin.ops.lstm import lstm_layer
from fairseq_attn_plugin.ops.precision import products_in

kinds = pytest.mark.parametrize("kind", ["lstm", "gru"])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def ours(rnn, x, states=None, padding=None):
    """Outputs, and of an LSTM the last states of its cells."""
    if isinstance(rnn, nn.LSTM):
        return lstm_layer(x, rnn, 0, states, padding)
    return (gru_layer(x, rnn, 0, None if states is None else states[0], padding),)


def torchs(rnn, x, states):
    if isinstance(rnn, nn.LSTM):
        outputs, (_, cell) = rnn(x, tuple(states))
        return outputs, cell
    return (rnn(x, states[0])[0],)


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("steps", "rows", "size"), [(7, 3, 5), (1, 1, 2), (9, 40, 72)])
@kinds
def test_layer_equals_torchs_forward_and_backward(kind, bidirectional, dtype, steps, rows, size):
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    rnn = (nn.LSTM if kind == "lstm" else nn.GRU)(6, size, bidirectional=bidirectional).to(wide)
    x = torch.randn(steps, rows, 6, dtype=wide, requires_grad=True)
    states = [torch.randn(1 + bidirectional, rows, size, dtype=wide, requires_grad=True) for _ in range(2)]
    with products_in(dtype):
        found = ours(rnn, x, tuple(states))
    expected = torchs(rnn, x, states)
    factors = [torch.randn_like(one) for one in expected]
    leaves = [x, *states[: len(expected)], *rnn.parameters()]
    both = []
    for results in (found, expected):
        loss = sum((one * factor).sum() for one, factor in zip(results, factors))
        both.append([*results, *torch.autograd.grad(loss, leaves)])
    for one, other in zip(*both):
        assert one.dtype == wide and (one - other).norm() <= 10 * torch.finfo(dtype).eps * other.norm()


@kinds
def test_layer_gradcheck(kind):
    rnn = (nn.LSTM if kind == "lstm" else nn.GRU)(2, 2, bidirectional=True).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    padding = torch.tensor([0, 5])
    assert torch.autograd.gradcheck(lambda x, *w: ours(rnn, x, padding=padding), (x, *rnn.parameters()))
