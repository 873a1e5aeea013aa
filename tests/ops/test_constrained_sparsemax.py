"""The projection on the simplex under upper bounds: against enumeration, and at the edges of what is possible."""

import pytest
import torch

from fairseq_attn_plugin.ops.constrained_sparsemax import constrained_sparsemax

import oracles


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("scale", [0.2, 1.0, 5.0])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_equals_enumeration_forward_and_backward(size, scale):
    z, factor = (scale * drawn(8, size)).requires_grad_(), drawn(8, size, seed=1)
    bounds = (drawn(8, size, seed=2).abs() / 2).requires_grad_()
    with torch.no_grad():
        bounds[:, -1] = 1.0
        bounds[2:4, 0] = 0.0 if size > 1 else 1.0
    p = constrained_sparsemax(z, bounds)
    expected = torch.stack([oracles.constrained_sparsemax(*row) for row in zip(z, bounds)])
    torch.testing.assert_close(p, expected, rtol=1e-10, atol=1e-12)
    assert torch.allclose(p.sum(-1), torch.ones(8, dtype=torch.float64)) and (p <= bounds + 1e-12).all()
    smooth = (bounds > 0).all(-1)  # p has a kink where a bound is zero
    if size > 1:
        for found, right in zip(*(torch.autograd.grad((x * factor).sum(), (z, bounds)) for x in (p, expected))):
            torch.testing.assert_close(found[smooth], right[smooth], rtol=1e-9, atol=1e-10)


def test_bounds_that_do_not_reach_one_and_equal_scores():
    bounds = torch.tensor([[0.2, 0.3, 0.0], [0.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.4, 0.4, 0.4]])
    p = constrained_sparsemax(torch.zeros(4, 3), bounds)
    torch.testing.assert_close(p, torch.tensor([[0.2, 0.3, 0.0], [0, 0, 0], [0.5, 0.5, 0.0], [1 / 3] * 3]))
