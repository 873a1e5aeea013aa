"""GRU steps and layers of our own against torch's GRU."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fairseq_attn_plugin.ops.gru import gru_cell, gru_layer
from fairseq_attn_plugin.ops.precision import products_in


def test_cell_gradcheck():
    torch.manual_seed(0)
    shapes = ((3, 6), (3, 6), (3, 2))
    arguments = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    assert torch.autograd.gradcheck(gru_cell, arguments)


def test_cell_equals_torchs():
    torch.manual_seed(0)
    reference = nn.GRUCell(4, 6)
    x, hidden = torch.randn(5, 4), torch.randn(5, 6)
    inputs = F.linear(x, reference.weight_ih, reference.bias_ih)
    recurrent = F.linear(hidden, reference.weight_hh, reference.bias_hh)
    torch.testing.assert_close(gru_cell(inputs, recurrent, hidden), reference(x, hidden))


def test_cell_of_gates_in_half_precision():
    """The state keeps its type, and gradients come back in the types of the gates."""
    torch.manual_seed(0)
    inputs, recurrent = (torch.randn(3, 6, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
    hidden = torch.randn(3, 2, requires_grad=True)
    new = gru_cell(inputs, recurrent, hidden)
    new.sum().backward()
    assert new.dtype == hidden.grad.dtype == torch.float32
    assert inputs.grad.dtype == recurrent.grad.dtype == torch.bfloat16
    torch.testing.assert_close(new, gru_cell(inputs.float(), recurrent.float(), hidden), rtol=0, atol=1e-6)


def run(gru, x, hidden, factors, layer):
    """Results, and gradients of inputs, states and parameters."""
    outputs = layer()
    return [outputs, *torch.autograd.grad((outputs * factors).sum(), [x, hidden, *gru.parameters()])]


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("steps", "rows", "size"), [(7, 3, 5), (1, 1, 2), (9, 40, 72)])
def test_layer_equals_torchs(bidirectional, dtype, steps, rows, size):
    torch.manual_seed(0)
    kind = torch.float64 if dtype == torch.float64 else torch.float32
    directions = 1 + bidirectional
    gru = nn.GRU(6, size, bidirectional=bidirectional).to(kind)
    x = torch.randn(steps, rows, 6, dtype=kind, requires_grad=True)
    hidden = torch.randn(directions, rows, size, dtype=kind, requires_grad=True)
    factors = torch.randn(steps, rows, size * directions, dtype=kind)

    def ours():
        with products_in(dtype):
            return gru_layer(x, gru, 0, hidden)

    tolerance = 10 * torch.finfo(dtype).eps
    expected = run(gru, x, hidden, factors, lambda: gru(x, hidden)[0])
    for found, wanted in zip(run(gru, x, hidden, factors, ours), expected):
        assert found.dtype == kind and (found - wanted).norm() <= tolerance * wanted.norm()


def test_layer_gradcheck():
    torch.manual_seed(0)
    gru = nn.GRU(2, 2, bidirectional=True).double()
    x = torch.randn(3, 2, 2, dtype=torch.float64, requires_grad=True)
    padding = torch.tensor([0, 5])
    assert torch.autograd.gradcheck(lambda x, *w: gru_layer(x, gru, 0, padding=padding), (x, *gru.parameters()))


def test_states_do_not_change_on_padding():
    torch.manual_seed(0)
    gru, x, hidden = nn.GRU(3, 4), torch.randn(5, 2, 3), torch.randn(1, 2, 4)
    padding = torch.tensor([0, 1, 2 * 2 + 1, 2 * 4 + 1])  # t R + r: all of t = 0, and row 1 at t = 2 and t = 4
    outputs = gru_layer(x, gru, 0, hidden, padding)
    assert torch.equal(outputs[0], hidden[0])
    assert torch.equal(outputs[2, 1], outputs[1, 1]) and torch.equal(outputs[4, 1], outputs[3, 1])
    assert not torch.equal(outputs[2, 0], outputs[1, 0])
