"""The prox of total variation: against enumeration and the conditions of its dual, forward and backward."""

import pytest
import torch

from fairseq_attn_plugin.ops.total_variation import total_variation_prox

import oracles


def prox(x, strength, real=None):
    return total_variation_prox(x, torch.ones_like(x, dtype=torch.bool) if real is None else real, strength)


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("strength", [0.0, 0.05, 0.4, 3.0])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_equals_enumeration_forward_and_backward(size, strength):
    x, factor = drawn(5, size).requires_grad_(), drawn(5, size, seed=1)
    y = prox(x, strength)
    expected = torch.stack([oracles.total_variation_prox(row, strength) for row in x])
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    found, right = (torch.autograd.grad((z * factor).sum(), x)[0] for z in (y, expected))
    torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("strength", [0.02, 0.3, 2.0, 50.0])
def test_long_rows_satisfy_the_conditions_of_the_dual(strength):
    """y = x - D'u with |u| <= lambda, and u = +-lambda where y rises or falls: then y is the solution."""
    x = torch.cat([drawn(20, 200), drawn(20, 200).cumsum(1), drawn(20, 200).round()])
    y = prox(x, strength)
    dual, step = (y - x).cumsum(1), y[:, 1:] - y[:, :-1]
    assert dual[:, -1].abs().max() < 1e-10
    dual = dual[:, :-1]
    assert dual.abs().max() <= strength + 1e-10
    assert step[dual.abs() < strength - 1e-10].abs().max() == 0
    assert ((dual * step)[step != 0] > 0).all()


def test_positions_that_do_not_count_are_left_out_wherever_they_are():
    x, real = drawn(1, 9), torch.tensor([[False, True, True, False, False, True, True, True, False]])
    expected = prox(x[real][None], 0.3)
    torch.testing.assert_close(prox(x, 0.3, real)[real][None], expected, rtol=0, atol=0)
    x[~real] = float("nan")
    x.requires_grad_()
    found = prox(x, 0.3, real)[real]
    torch.testing.assert_close(found[None], expected, rtol=0, atol=0)
    found.square().sum().backward()
    assert x.grad.isfinite().all() and (x.grad[~real] == 0).all()


def test_a_row_without_positions_and_numbers_that_are_none_end():
    assert prox(drawn(2, 3), 0.5, torch.zeros(2, 3, dtype=torch.bool)).shape == (2, 3)
    for wrong in (float("nan"), float("inf"), -float("inf")):
        prox(torch.tensor([[1.0, wrong, 0.5, 0.4]]), 0.5)
