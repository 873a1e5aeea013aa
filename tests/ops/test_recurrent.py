"""Steps and layers of LSTMs and GRUs of our own against torch's."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fairseq_attn_plugin.ops.gru import gru_cell, gru_layer
from fairseq_attn_plugin.ops.lstm import lstm_cell, lstm_layer
from fairseq_attn_plugin.ops.precision import products_in

kinds = pytest.mark.parametrize("kind", ["lstm", "gru"])


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


@kinds
def test_cell_equals_torchs(kind):
    reference = (nn.LSTMCell if kind == "lstm" else nn.GRUCell)(4, 6)
    x, hidden, cell = torch.randn(5, 4), torch.randn(5, 6), torch.randn(5, 6)
    inputs = F.linear(x, reference.weight_ih, reference.bias_ih)
    recurrent = F.linear(hidden, reference.weight_hh, reference.bias_hh)
    if kind == "lstm":
        torch.testing.assert_close(lstm_cell(inputs + recurrent, cell), reference(x, (hidden, cell)))
    else:
        torch.testing.assert_close(gru_cell(inputs, recurrent, hidden), reference(x, hidden))


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
    assert torch.autograd.gradcheck(lambda x, *w: ours(rnn, x, padding=torch.tensor([0, 5])), (x, *rnn.parameters()))


@kinds
def test_states_do_not_change_on_padding(kind):
    rnn, x, states = (nn.LSTM if kind == "lstm" else nn.GRU)(3, 4), torch.randn(5, 2, 3), torch.randn(2, 1, 2, 4)
    padding = torch.tensor([0, 1, 2 * 2 + 1, 2 * 4 + 1])  # t R + r: all of t = 0, and row 1 at t = 2 and t = 4
    if kind == "lstm":  # of which the cells are what counts
        _, last = ours(rnn, x, tuple(states), padding)
        _, only = ours(rnn, x[:1], tuple(states), padding[:2])
        assert torch.equal(only, states[1]) and not torch.equal(last, states[1])
        return
    (outputs,) = ours(rnn, x, tuple(states), padding)
    assert torch.equal(outputs[0], states[0, 0])
    assert torch.equal(outputs[2, 1], outputs[1, 1]) and torch.equal(outputs[4, 1], outputs[3, 1])
    assert not torch.equal(outputs[2, 0], outputs[1, 0])
