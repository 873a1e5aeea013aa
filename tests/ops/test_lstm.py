"""Layers of our own against torch's LSTM."""

import pytest
import torch
from torch import nn

from fairseq_attn_plugin.ops.lstm import lstm_layer
from fairseq_attn_plugin.ops.precision import products_in


def run(lstm, x, states, factors, layer):
    """Results, and gradients of inputs, states and parameters."""
    arguments = [x, *states, *lstm.parameters()]
    outputs, cell = layer()
    loss = (outputs * factors[0]).sum() + (cell * factors[1]).sum()
    return [outputs, cell, *torch.autograd.grad(loss, arguments)]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_equals_torchs(bidirectional, dtype):
    torch.manual_seed(0)
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    directions = 1 + bidirectional
    lstm = nn.LSTM(6, 5, bidirectional=bidirectional).to(kind)
    x = torch.randn(7, 3, 6, dtype=kind, requires_grad=True)
    states = [torch.randn(directions, 3, 5, dtype=kind, requires_grad=True) for _ in range(2)]
    factors = torch.randn(7, 3, 5 * directions, dtype=kind), torch.randn(directions, 3, 5, dtype=kind)

    def torchs():
        outputs, (_, cell) = lstm(x, tuple(states))
        return outputs, cell

    def ours():
        with products_in(dtype):
            return lstm_layer(x, lstm, 0, tuple(states))

    tolerance = 10 * torch.finfo(dtype).eps
    for found, expected in zip(run(lstm, x, states, factors, ours), run(lstm, x, states, factors, torchs)):
        assert found.dtype == kind and (found - expected).norm() <= tolerance * expected.norm()


def test_gradcheck():
    torch.manual_seed(0)
    lstm = nn.LSTM(2, 2, bidirectional=True).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    padding = torch.tensor([0, 5])
    assert torch.autograd.gradcheck(lambda x, *w: lstm_layer(x, lstm, 0, padding=padding), (x, *lstm.parameters()))


def test_cell_states_do_not_change_on_padding():
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 4)
    x, cell = torch.randn(5, 2, 3), torch.randn(1, 2, 4)
    padding = torch.tensor([0, 1, 2 * 2 + 1, 2 * 4 + 1])  # t R + r: all of t = 0, and row 1 at t = 2 and t = 4
    _, last = lstm_layer(x, lstm, 0, (torch.zeros(1, 2, 4), cell), padding)
    _, only = lstm_layer(x[:1], lstm, 0, (torch.zeros(1, 2, 4), cell), padding[:2])
    assert torch.equal(only, cell) and not torch.equal(last, cell)
