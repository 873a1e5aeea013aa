"""Deferred gradients of shared matrices equal ordinary ones."""

import pytest
import torch

from fairseq_attn_plugin.ops import deferred


def recurrence(keys, weight, inputs, share):
    keys, weight = share(keys), share(weight)
    x, outputs = inputs[:, 0], []
    for t in range(inputs.size(1)):
        weights = deferred.matmul_transposed(x.unsqueeze(1), keys).softmax(-1)
        context = deferred.matmul(weights, keys).squeeze(1)
        x = torch.tanh(deferred.linear(context + x, weight, inputs[:, t]))
        outputs.append(x)
    return torch.stack(outputs)


@pytest.fixture
def tensors():
    torch.manual_seed(0)
    return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((2, 5, 3), (3, 3), (2, 4, 3))]


def test_equals_plain_products(tensors):
    shared = torch.autograd.grad(recurrence(*tensors, deferred.share).pow(2).sum(), tensors)
    plain = torch.autograd.grad(recurrence(*tensors, lambda x: x).pow(2).sum(), tensors)
    torch.testing.assert_close(shared, plain)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("batched", [False, True])
def test_accumulate_adds_to_a_part_of_a_larger_tensor(shared, batched):
    shapes = [(2, 3, 4, 10), (2, 3, 4, 6), (3, 5, 6)] if batched else [(2, 4, 10), (2, 4, 6), (5, 6)]
    whole, x, matrix = (torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in shapes)
    prepared = deferred.share(matrix) if shared else matrix
    parts = [base.split(5, dim=-1) for base in (2 * whole).unbind()]  # of either step; the second half is read as well
    found = [deferred.accumulate(base, one, prepared) + other for (base, other), one in zip(parts, x)]
    expected = 2 * whole[..., :5] + x @ matrix.mT + 2 * whole[..., 5:]
    torch.testing.assert_close(torch.stack(found), expected)
    weights = torch.randn_like(expected)
    ours, theirs = (
        torch.autograd.grad((y * weights).sum(), (whole, x, matrix)) for y in (torch.stack(found), expected)
    )
    torch.testing.assert_close(ours, theirs)


def test_retained_graph_does_not_double_the_gradient(tensors):
    loss = recurrence(*tensors, deferred.share).pow(2).sum()
    expected = torch.autograd.grad(loss, tensors, retain_graph=True)
    torch.autograd.grad(loss, tensors[2], retain_graph=True)  # does not reach the shared matrices
    torch.testing.assert_close(torch.autograd.grad(loss, tensors), expected, rtol=0, atol=0)


def test_a_pass_that_stops_short_leaves_nothing_for_the_next(tensors):
    outputs = recurrence(*tensors, deferred.share)
    expected = torch.autograd.grad(outputs[1].sum(), tensors, retain_graph=True)
    torch.autograd.grad(outputs.pow(3).sum(), tensors[2], retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(outputs[1].sum(), tensors), expected)


def test_gradient_from_elsewhere_is_added():
    matrix = torch.randn(2, 3, 3, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 1, 3, dtype=torch.float64)
    shared = deferred.share(matrix)
    (deferred.matmul(x, shared).sum() + shared.pow(2).sum()).backward()
    torch.testing.assert_close(matrix.grad, x.transpose(1, 2).expand_as(matrix) + 2 * matrix.detach())


def test_without_gradients_nothing_is_recorded():
    matrix = torch.randn(3, 3, requires_grad=True)
    with torch.no_grad():
        assert deferred.share(matrix) is matrix
    assert deferred.share(matrix.detach()).grad_fn is None
