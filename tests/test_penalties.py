"""Penalties of attention mechanisms: their values, and that any criterion's loss has them."""

import re

import pytest
import torch
from attention_cases import DIM, attend, batch_of, draw_queries, make
from models_for_tests import build, fake_task, pad_batch
from test_end_to_end import SIZES, TRAINING

from fairseq_attn_plugin import _penalties
from fairseq_attn_plugin.attention import build_attention

import oracles
from cli import USER_DIR, run_cli


@pytest.mark.parametrize("name", ["soft", "sigmoid"])
def test_fertility_penalty_equals_the_normal_distribution(name):
    module = make(name, {"bias": "fertility"})
    encodings, pad_mask, words = batch_of()
    _, weights = attend(module, draw_queries(), encodings, pad_mask)
    step_mask = torch.tensor([[False] * 3, [False, True, True], [False] * 3, [False, False, True]])
    (penalty,) = module.penalties(module.precompute(encodings, pad_mask), weights, step_mask).values()
    expected = sum(
        oracles.fertility_penalty(module.biases, sentence, weights[row][~step_mask[row]][:, ~pad_mask[row]])
        for row, sentence in enumerate(words)
    )
    torch.testing.assert_close(penalty.value, expected)
    assert penalty.weight == 0.1


def test_no_penalty_where_its_weight_is_zero():
    module = make("soft", {"bias": "fertility", "fertility_weight": 0.0})
    memory = module.precompute(*batch_of()[:2])
    assert module.penalties(memory, torch.ones(4, 3, 6)) == {}
    assert not any("predicted" in name for name, _ in module.named_parameters())


def test_transition_penalty():
    module = build_attention("structured", query_dim=DIM, memory_dim=DIM)
    (penalty,) = module.parameter_penalties().values()
    assert penalty.weight == 0.005
    torch.testing.assert_close(penalty.value, (module.transitions**2).sum() / 2)


class Criterion(torch.nn.Module):
    """The sum of all logits, per word."""

    def forward(self, model, sample):
        logits = model(**sample)[0]
        words = sample["prev_output_tokens"].numel()
        return logits.sum(), words, {"ntokens": words}


@pytest.mark.parametrize(
    ("attention", "options", "names"),
    [
        ("structured", {"attention_bias": "fertility"}, {"fertility_penalty", "transition_penalty"}),
        ("soft", {}, set()),
    ],
)
def test_every_criterion_has_them_in_training_and_logs_them_always(attention, options, names):
    model = build("attn_lstm", fake_task(), attention=attention, **options).double()
    sample = {
        "src_tokens": pad_batch([3, 5]),
        "src_lengths": None,
        "prev_output_tokens": pad_batch([4, 4], "right", symbols=15),
    }
    criterion = Criterion()
    plain, words, _ = criterion(model, sample)
    criterion.forward = _penalties._with_penalties(criterion, criterion.forward)
    values = {}
    for training in (False, True):
        criterion.train(training)
        loss, _, logged = criterion(model, sample)
        assert set(logged) - {"ntokens"} == names
        values[training] = loss
    torch.testing.assert_close(values[False], plain)
    extra = 0
    if names:
        logits, output = model(**sample)
        transitions = model.decoder.attention.transitions
        torch.testing.assert_close(logged["transition_penalty"], 0.5 * words * transitions.square().sum())
        torch.testing.assert_close(logged["fertility_penalty"], output["penalties"]["fertility_penalty"].value)
        extra = 0.1 * logged["fertility_penalty"] + 0.005 * logged["transition_penalty"]
        values[True].backward()
        assert transitions.grad.abs().sum() > 0 and model.decoder.attention.biases.predicted.weight.grad is not None
    torch.testing.assert_close(values[True], plain + extra)
    assert not model._forward_hooks


PLAIN = [*SIZES[:6], *SIZES[7:]]  # without --encoder-bidirectional, which some architectures are by default


@pytest.mark.parametrize(
    "arch",
    ["lstm_structured", "lstm_latent_small --criterion latent_alignment --objective marginal --structured-scale 1"],
)
def test_criterions_of_any_family_log_the_penalties(arch, tiny_data, tmp_path):
    done = run_cli(
        ["fairseq-train", tiny_data, "--user-dir", USER_DIR, "--save-dir", tmp_path, *PLAIN, *TRAINING]
        + ["--max-update", 3, "--log-format", "json", "--log-interval", 1, "--arch", *arch.split()]
        + ["--attention", "structured", "--attention-bias", "fertility"]
    )
    for name in ("fertility_penalty", "transition_penalty"):
        for prefix in ("", "valid_"):
            assert re.search(rf'"{prefix}{name}": "[\d.]+"', done.stdout + done.stderr), prefix + name
