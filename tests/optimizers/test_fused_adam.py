"""Adam by the fused kernel: the updates of fairseq's Adam, its state, and trainings that change between the two."""

import re

import pytest
import torch
import training
from fairseq.dataclass.configs import FairseqConfig
from fairseq.optim.adam import FairseqAdam, FairseqAdamConfig
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.fp16_optimizer import FP16Optimizer, MemoryEfficientFP16Optimizer
from omegaconf import OmegaConf

from fairseq_attn_plugin.optimizers import fused_adam as module
from fairseq_attn_plugin.optimizers.fused_adam import FusedAdam

SHAPES = [(7, 5), (3,), (1,), (40, 9)]


def parameters(dtype=torch.float32, seed=0):
    draw = torch.Generator().manual_seed(seed)
    return [torch.nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype)) for shape in SHAPES]


def optimizer(cls, params, **options):
    return cls(OmegaConf.structured(FairseqAdamConfig(lr=[0.05], tpu=False, **options)), params)


def update(optimizer, params, number, clip=0.0, skip=None):
    """What the trainer does in one update; the gradients of an update are tiny in some elements."""
    draw = torch.Generator().manual_seed(100 + number)
    optimizer.zero_grad()
    grads = [
        torch.randn(p.shape, generator=draw, dtype=torch.float64)
        * 10.0 ** torch.randint(-9, 1, p.shape, generator=draw)
        for p in params
    ]
    used = [(p, grad.to(p.dtype)) for index, (p, grad) in enumerate(zip(params, grads)) if index != skip]
    optimizer.backward(sum((p * grad).sum() for p, grad in used))
    optimizer.multiply_grads(1 / 7)
    norm = optimizer.clip_grad_norm(clip)
    optimizer.step()
    return norm


@pytest.mark.parametrize(
    "options", [{}, {"weight_decay": 0.1}, {"adam_betas": "(0.8, 0.95)", "adam_eps": 1e-3}], ids=str
)
@pytest.mark.parametrize("clip", [0.0, 0.2])
def test_updates_equal_those_of_fairseq(options, clip):
    one, other = parameters(), parameters()
    found, expected = optimizer(FusedAdam, one, **options), optimizer(FairseqAdam, other, **options)
    assert found.fused
    for number in range(12):
        skip = 2 if number in (3, 7) else None  # a parameter that is not used has fewer updates
        norm = update(found, one, number, clip, skip)
        torch.testing.assert_close(norm, update(expected, other, number, clip, skip), rtol=1e-5, atol=0.0)
        torch.testing.assert_close(one, other, rtol=2e-5, atol=2e-5)
    states = found.state_dict()["state"], expected.state_dict()["state"]
    torch.testing.assert_close(*states, rtol=1e-4, atol=1e-7)


def test_the_norm_of_no_gradients_is_zero():
    assert optimizer(FusedAdam, parameters()).clip_grad_norm(1.0) == 0


@pytest.mark.parametrize("first", [FusedAdam, FairseqAdam])
def test_either_goes_on_from_the_state_of_the_other(first):
    second = FairseqAdam if first is FusedAdam else FusedAdam
    whole, parts = parameters(), parameters()
    straight, before = optimizer(first, whole), optimizer(first, parts)
    for number in range(3):
        update(straight, whole, number)
        update(before, parts, number)
    after = optimizer(second, parts)
    after.load_state_dict(before.state_dict(), {"lr": 0.05})
    assert before.state_dict()["param_groups"] == after.state_dict()["param_groups"]
    for number in range(3, 6):
        update(straight, whole, number)
        update(after, parts, number)
    torch.testing.assert_close(whole, parts, rtol=1e-5, atol=1e-6)


def test_a_factor_is_gone_with_its_gradients():
    one, other = parameters(), parameters()
    found, expected = optimizer(FusedAdam, one), optimizer(FusedAdam, other)
    found.multiply_grads(1000.0)
    update(found, one, 0)
    update(expected, other, 0)
    torch.testing.assert_close(one, other, rtol=0.0, atol=0.0)


def test_clipping_of_a_skipped_update_is_gone_too():
    """Where the loss overflows, AMP skips the update and clears the gradients of the inner optimizer alone."""
    one, other = parameters(), parameters()
    cfg = OmegaConf.structured(FairseqConfig)
    cfg.optimization.lr, cfg.optimizer = [0.05], {"_name": "fused_adam"}
    amp, expected = AMPOptimizer.build_optimizer(cfg, one), optimizer(FairseqAdam, other)
    one[0].grad = torch.full_like(one[0], float("nan"))
    amp.fp32_optimizer.clip_grad_norm(1.0)
    for whole, params in ((amp, one), (expected, other)):
        whole.zero_grad()
        for p in params:
            p.grad = torch.ones_like(p)
        whole.step()
    torch.testing.assert_close(one, other)


def test_fairseqs_own_code_where_there_is_no_kernel(caplog):
    dtype = torch.bfloat16
    one, other = parameters(dtype), parameters(dtype)
    found, expected = optimizer(FusedAdam, one), optimizer(FairseqAdam, other)
    (line,) = (record.getMessage() for record in caplog.records if record.name == module.__name__)
    assert not found.fused and "--optimizer adam is used" in line and str(dtype) in line
    for number in range(3):
        update(found, one, number, clip=0.2)
        update(expected, other, number, clip=0.2)
    assert all(torch.equal(p, q) for p, q in zip(one, other))


@pytest.mark.parametrize("wrapper", [FP16Optimizer, MemoryEfficientFP16Optimizer])
def test_half_precision_models(wrapper):
    results = []
    for name in ("fused_adam", "adam"):
        params = parameters(torch.bfloat16)
        cfg = OmegaConf.structured(FairseqConfig)
        cfg.common.bf16, cfg.optimization.lr = True, [0.05]
        cfg.optimizer = {"_name": name, "adam_betas": "(0.9, 0.98)"}
        whole = wrapper.build_optimizer(cfg, params)
        for number in range(8):
            update(whole, params, number, clip=0.2)
        results.append(params)
    torch.testing.assert_close(*results, rtol=1e-2, atol=1e-3)


def test_training_resumes_with_the_other_optimizer(tiny_data, tmp_path):
    def train(folder, name, updates):
        options = ["--arch", "attn_lstm_small", "--dropout", 0.1, "--optimizer", name, "--log-interval", 1]
        log = training.train(tiny_data, tmp_path / folder, *options, "--disable-validation", updates=updates).log
        return [float(value) for value in re.findall(r"\bloss=([0-9.]+)", log)]

    straight = train("adam", "adam", 8)
    first = train("fused", "fused_adam", 3)
    last = train("fused", "adam", 5) + train("fused", "fused_adam", 8)
    assert len(straight) > 7 and first + last == pytest.approx(straight, abs=3e-3)
