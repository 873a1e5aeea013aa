import torch

from fairseq_attn_plugin.ops.recurrent.lstm_cell import lstm_cell
from fairseq_attn_plugin.ops.tanh import tanh, tanh_


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


def test_tanh():
    torch.manual_seed(0)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        x = (torch.randn(50) * 5).to(dtype)
        torch.testing.assert_close(tanh(x), torch.tanh(x), rtol=0, atol=2 * torch.finfo(dtype).eps)
        torch.testing.assert_close(tanh_(x.clone()), torch.tanh(x), rtol=0, atol=2 * torch.finfo(dtype).eps)
    assert torch.autograd.gradcheck(tanh, torch.randn(7, dtype=torch.float64, requires_grad=True))
    assert tanh(torch.tensor([-1e30, 1e30])).tolist() == [-1, 1]
