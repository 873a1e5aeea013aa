"""Marginals of two-state chains against enumeration, and shapes that go wrong elsewhere."""

import math
from unittest import mock

import pytest
import torch

from fairseq_attn_plugin.ops import chain_crf

import oracles

METHODS = ("recursion", "enumeration")
methods = pytest.mark.parametrize("method", METHODS)


def log_marginals(*tensors, method):
    with mock.patch.object(chain_crf, "_enumerates", lambda potentials: method == "enumeration"):
        return chain_crf.chain_log_marginals(*tensors)


def draw(rows, size, seed=0, scale=1.0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    potentials = scale * torch.randn(rows, size, generator=generator, dtype=torch.float64)
    transitions = scale * torch.randn(2, 2, generator=generator, dtype=torch.float64)
    return potentials.to(dtype), transitions.to(dtype)


@methods
@pytest.mark.parametrize("size", range(1, 9))
def test_equals_enumeration_of_all_labelings(method, size):
    potentials, transitions = (x.requires_grad_() for x in draw(3, size, seed=size))
    marginals = log_marginals(potentials, transitions, method=method).exp()
    expected = torch.stack([oracles.chain_marginals(row, transitions) for row in potentials])
    torch.testing.assert_close(marginals, expected, rtol=1e-12, atol=1e-12)

    factors = torch.randn(3, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    inputs = (potentials, transitions)
    found, right = (torch.autograd.grad((x * factors).sum(), inputs) for x in (marginals, expected))
    torch.testing.assert_close(found, right, rtol=1e-10, atol=1e-12)


@methods
def test_large_potentials_keep_their_digits(method):
    """Potentials are bounded inside the recursion, far beyond what the message of a position can still tell apart."""
    _, transitions = draw(1, 1)
    potentials = torch.tensor([[15.0, 0.1, -15.0, 0.2, 20.0], [-12.0, -0.3, 12.0, 0.0, -9.0]], dtype=torch.float64)
    marginals = log_marginals(potentials, transitions, method=method).exp()
    expected = torch.stack([oracles.chain_marginals(row, transitions) for row in potentials])
    torch.testing.assert_close(marginals, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("size", (17, 43, 100, 203))
def test_both_methods_agree_on_long_chains(size):
    results = []
    for method in METHODS:
        potentials, transitions = (x.requires_grad_() for x in draw(4, size, seed=size))
        logs = log_marginals(potentials, transitions, method=method)
        results.append((logs, *torch.autograd.grad(logs.exp().square().sum(), (potentials, transitions))))
    torch.testing.assert_close(*results)


@methods
def test_padding_on_either_side_passes_nothing_on(method):
    potentials, transitions = draw(1, 5)
    expected = log_marginals(potentials, transitions, method=method)
    for before, after in ((3, 0), (0, 4), (2, 7), (60, 60)):
        wide = torch.full((1, before + 5 + after), 1e3, dtype=torch.float64)
        pad_mask = torch.ones(1, before + 5 + after, dtype=torch.bool)
        wide[:, before : before + 5], pad_mask[:, before : before + 5] = potentials, False
        wide.requires_grad_()
        logs = log_marginals(wide, transitions, pad_mask, method=method)
        torch.testing.assert_close(logs[:, before : before + 5], expected, rtol=1e-12, atol=1e-12)
        (gradient,) = torch.autograd.grad(logs.masked_fill(pad_mask, 0.0).sum(), wide)
        assert (gradient.masked_select(pad_mask) == 0).all()


@methods
@pytest.mark.parametrize("size", (7, 100))
@pytest.mark.parametrize("scale", (1.0, 5.0, 100.0))
def test_float32_is_as_good_as_its_rounding(method, size, scale):
    """Potentials are rounded to 24 bits: marginals can be no better than their slope (at most 1/4 for the position's
    own, and as much again for both sides) times that, plus a few roundings of the messages."""
    potentials, transitions = draw(50, size, scale=scale, dtype=torch.float32)
    exact = log_marginals(potentials.double(), transitions.double(), method="recursion").exp()
    marginals = log_marginals(potentials, transitions, method=method).exp()
    assert marginals.dtype == torch.float32
    rounding = torch.finfo(torch.float32).eps * (40 + 10 * float(transitions.abs().max()))
    assert (marginals - exact).abs().max() < rounding


@methods
@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_half_precision_is_computed_in_full(method, dtype):
    """Also in extreme cases: large potentials, strong coupling, and one position alone."""
    for size, scale in ((1, 1.0), (30, 1.0), (30, 1000.0)):
        potentials, transitions = (x.requires_grad_() for x in draw(4, size, scale=scale, dtype=dtype))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            marginals = log_marginals(potentials, transitions, method=method).exp()
        marginals.square().sum().backward()
        tensors = [x.detach().double() for x in (potentials, transitions)]
        exact = log_marginals(*tensors, method="recursion").exp()
        torch.testing.assert_close(marginals.double(), exact, rtol=0, atol=2e-6 if scale == 1 else 2e-3)
        assert potentials.grad.isfinite().all() and transitions.grad.isfinite().all()


@methods
def test_logarithms_stay_exact_where_marginals_underflow(method):
    """log p falls as fast as the potentials, and the gradient stays that of few positions apart from each other."""
    potentials, transitions = draw(2, 47)
    expected = log_marginals(potentials - 100, transitions, method="recursion") - 1e5
    far = (potentials - 100 - 1e5).requires_grad_()
    logs = log_marginals(far, transitions, method=method)
    torch.testing.assert_close(logs, expected)
    (gradient,) = torch.autograd.grad(logs[:, 3].sum(), far)
    torch.testing.assert_close(gradient, torch.eye(47, dtype=torch.float64)[3].expand(2, 47))


@methods
def test_a_position_that_cannot_be_attended_takes_no_part(method):
    potentials, transitions = draw(2, 6)
    potentials[:, 2] = -math.inf
    logs = log_marginals(potentials.requires_grad_(), transitions, method=method)
    assert (logs[:, 2] == -math.inf).all()
    weights = logs.softmax(-1)
    (gradient,) = torch.autograd.grad(weights.square().sum(), potentials)
    assert gradient.isfinite().all() and (gradient[:, 2].abs() < 1e-15).all() and (gradient[:, 1] != 0).all()


@methods
def test_no_chain(method):
    for shape in ((0, 5), (0, 1, 7), (3, 0, 45)):
        assert log_marginals(torch.empty(shape), torch.zeros(2, 2), method=method).shape == shape


def test_leading_dimensions_strides_and_the_choice_of_method():
    potentials, transitions = draw(6, 5)
    expected = log_marginals(potentials, transitions, method="recursion")
    for shaped in (potentials.view(2, 3, 5), potentials.t().contiguous().t()):
        found = log_marginals(shaped, transitions, method="enumeration")
        torch.testing.assert_close(found, expected.view(shaped.shape))
    choices = [chain_crf._enumerates(torch.empty(shape)) for shape in ((30, 17), (5, 6, 2), (31, 17))]
    assert choices == [True, True, False]
