"""Sums over pairs against the plain double loop."""

import math

import pytest
import torch

from fairseq_attn_plugin.ops.pairs import all_pairs
from fairseq_attn_plugin.ops.pairs.all_pairs import sum_basis, sum_tanh
from fairseq_attn_plugin.ops.pairs.chebyshev import chebyshev_nodes, lagrange_basis
from fairseq_attn_plugin.ops.pairs.pair_pooling import pooled_basis, pooled_tanh

import oracles

CHUNKS = (0, 1, 2, 3, 100)


@pytest.fixture
def batch():
    torch.manual_seed(0)
    pad_mask = torch.zeros(4, 7, dtype=torch.bool)
    pad_mask[0, :3], pad_mask[1, -6:], pad_mask[2] = True, True, True
    return torch.randn(4, 7, 3, dtype=torch.float64), pad_mask


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_sum_tanh(batch, chunk_size):
    keys, pad_mask = batch
    result = sum_tanh(keys, pad_mask, chunk_size)
    for row in range(len(keys)):
        real = ~pad_mask[row]
        assert (result[row, ~real] == 0).all()
        if real.any():
            torch.testing.assert_close(result[row, real], oracles.pair_sums(keys[row, real], lambda x: x))


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_sum_basis(batch, chunk_size):
    keys, pad_mask = batch
    result = sum_basis(keys, 5, pad_mask, chunk_size)
    for row in range(len(keys)):
        real = ~pad_mask[row]
        assert (result[row, ~real] == 0).all()
        if real.any():
            expected = oracles.pair_sums(keys[row, real], lambda x: lagrange_basis(x, 5).transpose(-1, -2))
            torch.testing.assert_close(result[row, real], expected)


@pytest.mark.parametrize("chunk_size", CHUNKS)
def test_gradcheck(batch, chunk_size):
    keys, pad_mask = batch
    keys.requires_grad_()
    assert torch.autograd.gradcheck(lambda k: sum_tanh(k, pad_mask, chunk_size), keys)
    assert torch.autograd.gradcheck(lambda k: sum_tanh(k, None, chunk_size), keys)
    assert torch.autograd.gradcheck(lambda k: sum_basis(k, 4, pad_mask, chunk_size), keys)
    assert torch.autograd.gradcheck(lambda k: sum_basis(k, 1, pad_mask, chunk_size), keys)


def test_small_blocks_equal_one_block(batch, monkeypatch):
    keys, pad_mask = batch
    whole = sum_tanh(keys, pad_mask), sum_basis(keys, 6, pad_mask)
    monkeypatch.setitem(all_pairs._BLOCK_ELEMENTS, "cpu", 8)
    for one, other in zip((sum_tanh(keys, pad_mask), sum_basis(keys, 6, pad_mask)), whole):
        torch.testing.assert_close(one, other)


def test_lagrange_basis_is_one_at_its_node():
    nodes = chebyshev_nodes(6, dtype=torch.float64)
    torch.testing.assert_close(lagrange_basis(nodes, 6), torch.eye(6, dtype=torch.float64))


@pytest.mark.parametrize("count", [4, 8, 12, 16])
def test_interpolation_error_falls_as_promised(count):
    """tanh(x + s) on [-1, 1] for the worst s.

    The nearest pole of tanh lies at i pi/2, on the Bernstein ellipse of parameter rho = pi/2 + sqrt(pi^2/4 + 1) = 3.43.
    """
    x = torch.linspace(-1, 1, 201, dtype=torch.float64)
    shift = torch.linspace(-3, 3, 61, dtype=torch.float64)[:, None]
    nodes = chebyshev_nodes(count, dtype=torch.float64)
    approximate = torch.tanh(nodes + shift) @ lagrange_basis(x, count).t()
    error = (approximate - torch.tanh(x + shift)).abs().max()
    assert error < 5 * 3.43**-count


@pytest.mark.parametrize("function", [sum_tanh, lambda *a: sum_basis(a[0], 12, *a[1:])])
def test_float32_is_as_exact_as_the_direct_sum(function):
    """No further from float64 than a few roundings of the N terms that are summed."""
    torch.manual_seed(0)
    keys = torch.randn(2, 40, 6) * 3
    exact = function(keys.double())
    error = (function(keys).double() - exact).abs().max() / exact.abs().max()
    assert error < 40 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("scale", [1.0, 30.0, 80.0, 1e4])
def test_large_keys_saturate(scale):
    keys = (torch.tensor([[-1.0, 1.0, 0.5, 0.0]]) * scale).unsqueeze(-1).requires_grad_()
    result = sum_tanh(keys)
    expected = oracles.pair_sums(keys[0].detach().double(), lambda x: x)
    torch.testing.assert_close(result[0].double(), expected, rtol=1e-4, atol=1e-4)
    result.sum().backward()
    assert keys.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype):
    x = torch.rand(2, 100, 4) * 2 - 1
    pooled = pooled_tanh(x.to(dtype))
    assert pooled.dtype == dtype
    torch.testing.assert_close(pooled, sum_tanh(x.to(dtype).float()).to(dtype))


def test_garbage_on_padding_is_not_read(batch):
    x, pad_mask = batch
    for garbage in (math.nan, math.inf):
        spoilt = x.masked_fill(pad_mask.unsqueeze(-1), garbage)
        for pooled in (pooled_tanh, lambda x, mask: pooled_basis(x, 6, mask)):
            torch.testing.assert_close(pooled(spoilt, pad_mask), pooled(x, pad_mask))


def test_mean_of_one_word_has_no_pairs():
    assert (sum_tanh(torch.randn(2, 1, 3)) == 0).all()
    assert sum_basis(torch.randn(2, 1, 3), 4).abs().max() < 1e-6
