"""Sums over pairs by series in linear time, against all pairs, and the choice between the two."""

import math

import pytest
import torch

from fairseq_attn_plugin.ops import pair_pooling, pair_series
from fairseq_attn_plugin.ops.all_pairs import sum_basis, sum_tanh
from fairseq_attn_plugin.ops.chebyshev import chebyshev_nodes
from fairseq_attn_plugin.ops.fourier_extension import pair_series as series_of_pairs
from fairseq_attn_plugin.ops.pair_pooling import pooled_basis, pooled_tanh
from fairseq_attn_plugin.ops.pair_series import pooled_series

NODES = 12


def sentences(batch=4, length=7, dim=3, bound=1.0, dtype=torch.float64):
    """Padded on either side, one sentence without words, one with one word; the largest |x| is the bound."""
    torch.manual_seed(0)
    x = (torch.rand(batch, length, dim, dtype=dtype) * 2 - 1) * bound
    x[0, -1, 0], x[-1, 0, 0] = bound, -bound
    pad_mask = torch.zeros(batch, length, dtype=torch.bool)
    pad_mask[0, : length // 2] = True
    if batch > 2:
        pad_mask[1, 1:], pad_mask[2] = True, True
    return x, pad_mask


def shifted(pooled, count):
    """sum_m tanh(x_m + s) G_mk for a few s: what the basis is for. tanh itself where ``count`` is 0."""
    if not count:
        return pooled
    generator = torch.Generator().manual_seed(1)
    shifts = torch.randn(3, 1, 1, pooled.size(-1), generator=generator, dtype=torch.float64).to(pooled)
    nodes = chebyshev_nodes(count, dtype=pooled.dtype)[:, None]
    return (torch.tanh(nodes + shifts.unsqueeze(1)) * pooled).sum(-2)


def values_and_gradient(function, x, count):
    x = x.clone().requires_grad_()
    values = shifted(function(x), count)
    factor = torch.randn(values.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    (values * factor.to(x)).sum().backward()
    return values.detach(), x.grad


def series_and_pairs(x, pad_mask, count, bound, tolerance=1e-12, chunk_size=0):
    """Values and gradients of both ways."""
    series = series_of_pairs(count, bound, tolerance)

    def by_series(x):
        pooled = pooled_series(x, series, pad_mask, chunk_size)
        return pooled if count else pooled.squeeze(2)

    def by_pairs(x):
        return sum_basis(x, count, pad_mask) if count else sum_tanh(x, pad_mask)

    return values_and_gradient(by_series, x, count), values_and_gradient(by_pairs, x, count)


@pytest.mark.parametrize("chunk_size", [0, 3])
@pytest.mark.parametrize("bound", [0.3, 1.25, 3.0])
@pytest.mark.parametrize("count", [0, NODES])
def test_series_equal_all_pairs(count, bound, chunk_size):
    x, pad_mask = sentences(bound=bound)
    one, other = series_and_pairs(x, pad_mask, count, max(bound, 0.5), chunk_size=chunk_size)
    torch.testing.assert_close(one[0], other[0], rtol=0, atol=2e-11)
    torch.testing.assert_close(one[1], other[1], rtol=0, atol=2e-9)
    assert (one[1][pad_mask] == 0).all()


@pytest.mark.parametrize("count", [0, 1, 5])
def test_gradcheck(count):
    x, pad_mask = sentences(2, 3, 1)
    series = series_of_pairs(count, 1.0, 1e-4)
    assert torch.autograd.gradcheck(lambda y: pooled_series(y, series, pad_mask), x.requires_grad_())
    assert torch.autograd.gradcheck(lambda y: pooled_series(y, series, None, 2), x)


def test_garbage_on_padding_is_not_read():
    x, pad_mask = sentences()
    series = series_of_pairs(0, 1.0, 1e-12)
    spoilt = x.masked_fill(pad_mask.unsqueeze(-1), math.nan)
    one, other = (pooled_series(y, series, pad_mask) for y in (x, spoilt))
    assert torch.equal(one, other) and (one[pad_mask] == 0).all()
    longer = torch.rand(2, 80, 3) - 0.5
    mask = torch.arange(80)[None] >= torch.tensor([[80], [60]])
    spoilt = longer.masked_fill(mask.unsqueeze(-1), math.inf)
    assert torch.equal(pooled_tanh(longer, mask), pooled_tanh(spoilt, mask))


@pytest.mark.parametrize("count", [0, NODES])
def test_small_blocks_equal_one_block(count, monkeypatch):
    x, pad_mask = sentences()
    whole, _ = series_and_pairs(x, pad_mask, count, 1.0)
    monkeypatch.setitem(pair_series._BLOCK_ELEMENTS, "cpu", 200)
    parts, _ = series_and_pairs(x, pad_mask, count, 1.0)
    for one, other in zip(whole, parts):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("bound", [0.5, 1.0, 1.25, 2.0])
@pytest.mark.parametrize("count", [0, NODES])
def test_float32_is_as_exact_as_all_pairs(count, bound):
    """Values within a few roundings of the N terms that are summed; gradients within the derivative of that error."""
    x, pad_mask = sentences(2, 40, 6, bound, torch.float32)
    (values, gradient), _ = series_and_pairs(x, pad_mask, count, bound, 1e-7)
    _, exact = series_and_pairs(x.double(), pad_mask, count, bound)
    for one, other, tolerance in ((values, exact[0], 1e-6), (gradient, exact[1], 5e-6)):
        assert (one - other).norm() / other.norm() < tolerance


@pytest.mark.parametrize("count", [0, NODES])
def test_many_positions(count):
    x, pad_mask = sentences(2, 2000, 2)
    one, other = series_and_pairs(x, pad_mask, count, 1.0)
    assert (one[0] - other[0]).norm() < 1e-12 * other[0].norm()
    assert (one[1] - other[1]).norm() < 1e-10 * other[1].norm()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(dtype):
    x, pad_mask = sentences(2, 100, 4)
    pooled = pooled_tanh(x.to(dtype), pad_mask)
    assert pooled.dtype == dtype
    torch.testing.assert_close(pooled, sum_tanh(x.to(dtype).float(), pad_mask).to(dtype))


@pytest.mark.parametrize("autocast", [False, True])
def test_the_choice(monkeypatch, autocast):
    """Long sentences and small values take the series; short ones, large values and infinity take all pairs."""
    taken = []

    def seen(*arguments):
        taken.append("series")
        return pooled_series(*arguments)

    monkeypatch.setattr(pair_pooling, "pooled_series", seen)
    short, long = torch.rand(2, 1, 3) - 0.5, torch.rand(2, 300, 3) * 2 - 1
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        for x, expected in ((short, 0), (long, 1), (50 * long, 0), (long.clone().fill_(math.inf), 0), (long[:0], 0)):
            taken.clear()
            one, other = pooled_tanh(x), pooled_basis(x, NODES)
            assert len(taken) == 2 * expected
            torch.testing.assert_close(one, sum_tanh(x), rtol=1e-5, atol=1e-4)
            expected = shifted(sum_basis(x, NODES), NODES)
            torch.testing.assert_close(shifted(other, NODES), expected, rtol=1e-5, atol=1e-3)


def test_more_frequencies_are_exact_on_longer_intervals():
    series = [series_of_pairs(0, bound, 1e-7) for bound in (0.5, 1.0, 2.0, 4.0)]
    assert all(one.error <= 1e-7 and one.coefficients.abs().sum() < 4 for one in series)
    assert sorted(len(one.frequencies) for one in series) == [len(one.frequencies) for one in series]
