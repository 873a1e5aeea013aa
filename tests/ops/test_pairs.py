"""Sums over pairs: against the plain double loop, and within one kernel by the functions that are compiled."""

import logging
import math
import shutil

import pytest
import torch

from fairseq_attn_plugin.ops.pairs import all_pairs, pair_pooling
from fairseq_attn_plugin.ops.pairs.all_pairs import chebyshev_nodes, cosine_matrix, sum_pairs
from fairseq_attn_plugin.ops.pairs.pair_pooling import pooled_basis, pooled_tanh

import oracles


@pytest.fixture
def batch():
    """Padding on either side, a sentence of one word and one of none."""
    torch.manual_seed(0)
    pad_mask = torch.zeros(4, 7, dtype=torch.bool)
    pad_mask[0, :3], pad_mask[1, -6:], pad_mask[2] = True, True, True
    return torch.randn(4, 7, 3, dtype=torch.float64), pad_mask


@pytest.fixture(params=[False, True], ids=["plain", "fused"])
def kernel(request, monkeypatch):
    """Also the way of captured training steps, on the processor."""
    if request.param:
        monkeypatch.setattr(pair_pooling, "fuses", lambda x: True)


def lagrange_basis(x, count):
    """l_m(x) for the Chebyshev nodes, shape ``x.shape + (count,)``."""
    angle = torch.arccos(x.clamp(-1, 1))
    return torch.cos(angle[..., None] * torch.arange(count, dtype=x.dtype)) @ cosine_matrix(count).to(x).t()


def differentiated(function, x):
    x = x.clone().requires_grad_()
    out = function(x)
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return out.detach(), x.grad


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("rows", [1, 2, 3, 100])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_sums_and_gradients_are_those_of_the_double_loop(batch, count, rows, padded, monkeypatch):
    monkeypatch.setattr(all_pairs, "_ROWS", rows)
    keys, pad_mask = batch
    pad_mask = pad_mask if padded else None

    def slow(x):
        each = (lambda x: lagrange_basis(x, count).transpose(-1, -2)) if count else (lambda x: x)
        result = x.new_zeros(*x.shape[:2], count, x.size(-1)) if count else torch.zeros_like(x)
        for row, words in enumerate(x):
            real = slice(None) if pad_mask is None else ~pad_mask[row]
            if len(words[real]):
                result[row, real] = oracles.pair_sums(words[real], each)
        return result

    found = differentiated(lambda x: sum_pairs(x, pad_mask, count), keys)
    torch.testing.assert_close(found, differentiated(slow, keys))


def test_small_blocks_equal_one_block(batch, monkeypatch):
    keys, pad_mask = batch
    whole = [sum_pairs(keys, pad_mask, count) for count in (0, 6)]
    monkeypatch.setitem(all_pairs._BLOCK_ELEMENTS, "cpu", 8)
    torch.testing.assert_close([sum_pairs(keys, pad_mask, count) for count in (0, 6)], whole)


@pytest.mark.parametrize("count", [4, 8, 12, 16])
def test_interpolation_error_falls_as_promised(count):
    """tanh(x + s) on [-1, 1] for the worst s.

    The nearest pole of tanh lies at i pi/2, on the Bernstein ellipse of parameter rho = pi/2 + sqrt(pi^2/4 + 1) = 3.43.
    """
    x = torch.linspace(-1, 1, 201, dtype=torch.float64)
    shift = torch.linspace(-3, 3, 61, dtype=torch.float64)[:, None]
    nodes = chebyshev_nodes(count, dtype=torch.float64)
    approximate = torch.tanh(nodes + shift) @ lagrange_basis(x, count).t()
    assert (approximate - torch.tanh(x + shift)).abs().max() < 5 * 3.43**-count


@pytest.mark.parametrize("count", [0, 12])
def test_float32_is_as_exact_as_the_direct_sum(count):
    """No further from float64 than a few roundings of the N terms that are summed."""
    torch.manual_seed(0)
    keys = torch.randn(2, 40, 6) * 3
    exact = sum_pairs(keys.double(), None, count)
    error = (sum_pairs(keys, None, count).double() - exact).abs().max() / exact.abs().max()
    assert error < 40 * torch.finfo(torch.float32).eps


@pytest.mark.parametrize("scale", [1.0, 30.0, 80.0, 1e4])
def test_large_keys_saturate(scale):
    keys = (torch.tensor([[-1.0, 1.0, 0.5, 0.0]]) * scale).unsqueeze(-1).requires_grad_()
    result = sum_pairs(keys, None)
    expected = oracles.pair_sums(keys[0].detach().double(), lambda x: x)
    torch.testing.assert_close(result[0].double(), expected, rtol=1e-4, atol=1e-4)
    result.sum().backward()
    assert keys.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(kernel, batch, dtype):
    x, mask = torch.rand(4, 100, 3) * 2 - 1, batch[1].repeat(1, 15)[:, :100]
    found, expected = differentiated(lambda y: pooled_tanh(y, mask), x.to(dtype)), sum_pairs(x.to(dtype).float(), mask)
    assert found[0].dtype == found[1].dtype == dtype
    torch.testing.assert_close(found[0], expected.to(dtype))


def test_garbage_on_padding_is_not_read(kernel, batch):
    x, mask = batch
    for garbage in (math.nan, math.inf):
        spoilt = x.masked_fill(mask.unsqueeze(-1), garbage)
        for pool in (lambda y: pooled_tanh(y, mask), lambda y: pooled_basis(y, 4, mask)):
            torch.testing.assert_close(differentiated(pool, spoilt), differentiated(pool, x))


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 12])
def test_fused_values_and_gradients_are_those_of_all_pairs(batch, count, padded, monkeypatch):
    x, mask = batch[0], batch[1] if padded else None
    monkeypatch.setattr(pair_pooling, "fuses", lambda x: True)
    found = differentiated(lambda y: pooled_basis(y, count, mask) if count else pooled_tanh(y, mask), x)
    torch.testing.assert_close(found, differentiated(lambda y: sum_pairs(y, mask, count), x), rtol=1e-12, atol=1e-12)


def test_processors_and_plain_steps_do_not_compile(batch):
    x, _ = batch
    with pair_pooling.compiling():
        assert not pair_pooling.fuses(x)
        assert pair_pooling.fuses(x.to("meta")) is False
    assert pair_pooling._state == {"wanted": False, "broken": False}


def test_without_a_compiler_the_sums_go_on(batch, monkeypatch, caplog):
    def missing(function):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(pair_pooling, "_compiled", missing)
    monkeypatch.setattr(pair_pooling, "fuses", lambda x: True)
    monkeypatch.setitem(pair_pooling._state, "wanted", True)
    monkeypatch.setitem(pair_pooling._state, "broken", False)
    x, mask = batch
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            torch.testing.assert_close(pair_pooling.pooled_tanh(x, mask), sum_pairs(x, mask))
    assert [record.getMessage() for record in caplog.records] == [
        "sums over pairs cannot be compiled (no C compiler); they go on without"
    ]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="NO COMPILER: torch.compile needs g++ on a processor")
def test_compiled_functions_are_the_functions(batch):
    x, mask = batch[0].float(), batch[1]
    for function, given in ((pair_pooling.sums_of_pairs, 3), (pair_pooling.gradient_of_pairs, torch.randn(4, 7, 3, 3))):
        found = pair_pooling._compiled(function)(x, ~mask, given)
        torch.testing.assert_close(found, function(x, ~mask, given), rtol=1e-5, atol=1e-5)
