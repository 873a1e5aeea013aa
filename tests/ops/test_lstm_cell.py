import torch

from fairseq_attn_plugin.ops.lstm import lstm_cell


def test_gradcheck():
    torch.manual_seed(0)
    gates = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    cell = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lstm_cell, (gates, cell))


def test_equals_torchs_cell():
    torch.manual_seed(0)
    reference = torch.nn.LSTMCell(4, 6)
    x, hidden, cell = torch.randn(5, 4), torch.randn(5, 6), torch.randn(5, 6)
    gates = torch.nn.functional.linear(x, reference.weight_ih, reference.bias_ih)
    gates = gates + torch.nn.functional.linear(hidden, reference.weight_hh, reference.bias_hh)
    for one, other in zip(lstm_cell(gates, cell), reference(x, (hidden, cell))):
        torch.testing.assert_close(one, other)
