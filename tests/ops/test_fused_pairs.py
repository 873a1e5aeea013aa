"""Sums over pairs within one kernel: the functions that are compiled, against the sums pair by pair."""

import logging
import shutil

import pytest
import torch

from fairseq_attn_plugin.ops.pairs import fused_pairs as module
from fairseq_attn_plugin.ops.pairs import pair_pooling
from fairseq_attn_plugin.ops.pairs.all_pairs import sum_basis, sum_tanh
from fairseq_attn_plugin.ops.pairs.pair_pooling import pooled_basis, pooled_tanh


def sentences(batch=4, length=6, dim=3, dtype=torch.float64):
    """Padding on either side, a sentence of one word and one of none."""
    x = 2 * torch.randn(batch, length, dim, generator=torch.Generator().manual_seed(0), dtype=dtype)
    pad_mask = torch.zeros(batch, length, dtype=torch.bool)
    pad_mask[0, :2], pad_mask[1, 1:], pad_mask[2] = True, True, True
    return x, pad_mask


def differentiated(function, x):
    x = x.clone().requires_grad_()
    out = function(x)
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype).view_as(out)).sum().backward()
    return out.detach(), x.grad


@pytest.fixture
def fused(monkeypatch):
    """The way of captured training steps, on the processor."""
    monkeypatch.setattr(pair_pooling, "fuses", lambda x: True)


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("count", [0, 1, 2, 12])
def test_values_and_gradients_are_those_of_all_pairs(fused, count, padded):
    x, mask = sentences()
    mask = mask if padded else None
    found = differentiated(lambda y: pooled_basis(y, count, mask) if count else pooled_tanh(y, mask), x)
    expected = differentiated(lambda y: sum_basis(y, count, mask) if count else sum_tanh(y, mask), x)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_summed_in_float32(fused, dtype):
    x, mask = sentences(length=40, dtype=torch.float32)
    x = x.to(dtype)
    found, expected = differentiated(lambda y: pooled_tanh(y, mask), x), sum_tanh(x.float(), mask)
    assert found[0].dtype == found[1].dtype == dtype
    torch.testing.assert_close(found[0], expected.to(dtype))


def test_garbage_on_padding_is_not_read(fused):
    x, mask = sentences()
    spoilt = x.masked_fill(mask.unsqueeze(-1), torch.nan)
    for pool in (lambda y: pooled_tanh(y, mask), lambda y: pooled_basis(y, 4, mask)):
        torch.testing.assert_close(differentiated(pool, spoilt), differentiated(pool, x))


def test_gradcheck():
    x, mask = sentences(3, 3, 2)
    assert torch.autograd.gradcheck(lambda y: module.fused_sums(y, 4, mask), x.requires_grad_())


def test_processors_and_plain_steps_do_not_compile():
    x, _ = sentences()
    with module.compiling():
        assert not module.fuses(x)
        assert module.fuses(x.to("meta")) is False
    assert module._state == {"wanted": False, "broken": False}


def test_without_a_compiler_the_sums_go_on(monkeypatch, caplog):
    def missing(function):
        raise RuntimeError("no C compiler")

    monkeypatch.setattr(module, "_compiled", missing)
    monkeypatch.setattr(module, "fuses", lambda x: not module._state["broken"])
    monkeypatch.setitem(module._state, "broken", False)
    x, mask = sentences()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            torch.testing.assert_close(module.fused_sums(x, 1, mask).squeeze(2), sum_tanh(x, mask))
    assert [record.getMessage() for record in caplog.records] == [
        "sums over pairs cannot be compiled (no C compiler); they go on without"
    ]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="NO COMPILER: torch.compile needs g++ on a processor")
def test_compiled_functions_are_the_functions():
    x, mask = sentences(5, 7, dtype=torch.float32)
    for function, given in ((module.sums_of_pairs, 3), (module.gradient_of_pairs, torch.randn(5, 7, 3, 3))):
        found = module._compiled(function)(x, ~mask, given)
        torch.testing.assert_close(found, function(x, ~mask, given), rtol=1e-5, atol=1e-5)
