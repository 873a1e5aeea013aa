"""The loss over a vocabulary in blocks: against the formula word by word, fairseq's function, and its memory."""

import math

import pytest
import torch
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fairseq_attn_plugin.ops.likelihoods import alignment_blocks
from fairseq_attn_plugin.ops.likelihoods import vocabulary_loss as module
from fairseq_attn_plugin.ops.likelihoods.vocabulary_loss import Targets, vocabulary_loss

PAD, WORDS, WIDTH = 1, 11, 6
SMOOTHINGS = (0.0, 0.1)


def batch(shape=(5, 4), words=WORDS, dtype=torch.float64, bias=True, size=1.0, seed=0):
    """Features, matrix, bias and targets, some of them padding."""
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return (size * torch.randn(*shape, generator=draw, dtype=torch.float64)).to(dtype).requires_grad_()

    target = torch.randint(2, words, shape, generator=draw)
    target[torch.rand(shape, generator=draw) < 0.3] = PAD
    return normal(*shape, WIDTH), normal(words, WIDTH), normal(words) if bias else None, target


def small_blocks(monkeypatch, rows=3):
    monkeypatch.setattr(module, "MIN_ROWS", rows)
    monkeypatch.setattr(alignment_blocks, "BLOCK_BYTES", {"cpu": 1, "cuda": 1})


def stock(features, weight, bias, target, smoothing):
    log_probs = torch.nn.functional.linear(features, weight, bias).log_softmax(-1)
    flat = log_probs.view(-1, len(weight)), target.reshape(-1)
    return (*label_smoothed_nll_loss(*flat, smoothing, ignore_index=PAD), log_probs.argmax(-1))


def gradients(loss, *tensors):
    return torch.autograd.grad(loss, [tensor for tensor in tensors if tensor is not None])


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 3, 100])
@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-12), (torch.float32, 2e-6)])
def test_equals_fairseq_with_gradients(smoothing, bias, rows, dtype, close, monkeypatch):
    small_blocks(monkeypatch, rows)
    tensors = batch(dtype=dtype, bias=bias, seed=1)
    loss, nll, _ = stock(*tensors, smoothing)
    found = vocabulary_loss(*tensors[:3], Targets(tensors[3], PAD, smoothing))
    torch.testing.assert_close((found.loss, found.nll), (loss, nll), rtol=close, atol=close)
    expected = gradients(3 * loss, *tensors[:3])
    torch.testing.assert_close(gradients(3 * found.loss, *tensors[:3]), expected, rtol=10 * close, atol=10 * close)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("offset", [0.0, 300.0, -300.0])
def test_logits_of_any_size(smoothing, offset):
    """Sums of exponentials that overflow or vanish, and words of probability zero in float32."""
    tensors = list(batch(dtype=torch.float32, size=8.0, seed=2))
    tensors[2] = (tensors[2].detach() + offset).requires_grad_()
    loss, nll, _ = stock(*tensors, smoothing)
    found = vocabulary_loss(*tensors[:3], Targets(tensors[3], PAD, smoothing))
    assert nll > 500
    torch.testing.assert_close((found.loss, found.nll), (loss, nll), rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(gradients(found.loss, *tensors[:3]), gradients(loss, *tensors[:3]), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_logits_that_are_not_finite_give_the_same_loss(value):
    features, weight, bias, target = batch(dtype=torch.float32)
    with torch.no_grad():
        bias[target[target != PAD][0]] = value
    _, nll, _ = stock(features, weight, bias, target, 0.0)
    torch.testing.assert_close(vocabulary_loss(features, weight, bias, Targets(target, PAD)).loss, nll, equal_nan=True)


@pytest.mark.parametrize("smoothing", SMOOTHINGS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_padding_alone_costs_nothing(smoothing, dtype):
    features, weight, bias, target = batch(words=1000, dtype=dtype)  # enough for oneDNN's products
    target.fill_(PAD)
    found = vocabulary_loss(features, weight, bias, Targets(target, PAD, smoothing))
    assert found.loss == 0 and all(not grad.any() for grad in gradients(found.loss, features, weight, bias))


def test_a_kept_graph_may_be_used_again():
    features, weight, bias, target = batch()
    loss = vocabulary_loss(features, weight, bias, Targets(target, PAD, 0.1)).loss
    first = torch.autograd.grad(2 * loss, (features, weight, bias), retain_graph=True)
    first = [grad.clone() for grad in first]
    torch.testing.assert_close(gradients(2 * loss, features, weight, bias), tuple(first))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("how", ["model", "autocast"])
def test_half_precision_is_near_float32(dtype, how, monkeypatch):
    small_blocks(monkeypatch, rows=7)
    exact = batch(shape=(40,), words=200, dtype=torch.float32, size=0.5, seed=3)
    exact = [x.detach().to(dtype).float().requires_grad_() for x in exact[:3]] + [exact[3]]
    loss, nll, _ = stock(*exact, 0.1)
    used = [x.detach().to(dtype if how == "model" else torch.float32).requires_grad_() for x in exact[:3]]
    with torch.autocast("cpu", dtype, enabled=how == "autocast"):
        found = vocabulary_loss(*used, Targets(exact[3], PAD, 0.1))
    assert found.loss.dtype == torch.float32
    torch.testing.assert_close((found.loss, found.nll), (loss, nll), rtol=2e-3, atol=0.0)
    for value, tensor, expected in zip(gradients(found.loss, *used), used, gradients(loss, *exact[:3])):
        assert value.dtype == tensor.dtype
        assert (value.float() - expected).norm() < 0.02 * expected.norm()


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that an operation returns."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.numbers = max(self.numbers, tensor.numel())
        return result


@pytest.mark.parametrize("products", [torch.float32, torch.bfloat16])
def test_no_tensor_is_larger_than_a_block_or_the_matrix(products, monkeypatch):
    small_blocks(monkeypatch, rows=5)
    features, weight, bias, target = batch(shape=(60,), words=500, dtype=torch.float32)
    with Largest() as largest, torch.autocast("cpu", products, enabled=products != torch.float32):
        vocabulary_loss(features, weight, bias, Targets(target, PAD, 0.1)).loss.backward()
    assert largest.numbers == max(5, WIDTH) * 500
    with Largest() as whole:
        stock(features, weight, bias, target, 0.1)[0].backward()
    assert whole.numbers == 60 * 500  # the count sees what it is to see
