"""Penalties of attention mechanisms: their values, and that the loss of every criterion has them."""

import math
import re
from types import SimpleNamespace

import pytest
import torch
from models_for_tests import build, fake_task, pad_batch
from training import train

from fairseq_attn_plugin.attention import Penalty, attention_statistics
from fairseq_attn_plugin.attention.density_matrix import pair_statistics
from fairseq_attn_plugin.patches import penalties
from fairseq_attn_plugin.patches.penalties import add_penalties
from fairseq_attn_plugin.patches.wrapping import wrapped_by
from fairseq_attn_plugin.testing import Subject
from fairseq_attn_plugin.testing.subject import LENGTHS, batch_of, draw_queries, stepwise

import oracles
from cli import TINY

ENTROPY, INFORMATION = (f"attention_{name}_statistic" for name in ("entropy", "information"))
STATISTICS = {ENTROPY, INFORMATION}


STEP_MASK = torch.tensor([[False] * 3, [False, True, True], [False] * 3, [False, False, True]])


def make(name, **options):
    return Subject(name, options).build()


@pytest.mark.parametrize("name", ["soft", "sigmoid"])
def test_fertility_penalty_equals_the_normal_distribution(name):
    module = make(name, bias="fertility", fertility_weight=0.3)
    encodings, pad_mask, words = batch_of()
    memory = module.precompute(encodings, pad_mask)
    _, weights = stepwise(module, draw_queries(3), memory)
    (penalty,) = module.penalties(memory, weights, STEP_MASK).values()
    expected = sum(
        oracles.fertility_penalty(module.biases, sentence, weights[row][~STEP_MASK[row]][:, ~pad_mask[row]])
        for row, sentence in enumerate(words)
    )
    torch.testing.assert_close(penalty.value, expected)
    assert penalty.weight == 0.3


def test_no_penalty_if_its_weight_is_zero():
    module = make("soft", bias="fertility", fertility_weight=0.0)
    memory = module.precompute(*batch_of()[:2])
    assert module.penalties(memory, torch.ones(4, 3, 6)) == {}
    assert not any("predicted" in name for name, _ in module.named_parameters())


@pytest.mark.parametrize("pairs", ["keys", "centred-keys", "encodings"])
def test_statistics_of_pairs(pairs):
    module = make("mqt", adm_pairs=pairs)
    encodings, pad_mask, words = batch_of()
    memory = module.precompute(encodings, pad_mask)
    step_mask, weights = torch.tensor([[False, True]] * 4), torch.ones(4, 2, encodings.size(1))
    assert module.train().penalties(memory, weights, step_mask) == {}
    found = module.eval().penalties(memory, weights, step_mask)
    vectors = [sentence if pairs == "encodings" else module.score.projection(sentence) for sentence in words]
    if pairs == "centred-keys":
        vectors = [keys - keys.mean(0) for keys in vectors]
    assert {name: (term.value.item(), term.weight) for name, term in found.items()} == {
        f"pair_{name}_statistic": (pytest.approx(4 * value, rel=1e-5, abs=1e-6), 0.0)
        for name, value in zip(("slope", "offset", "size"), oracles.pair_statistics(vectors))
    }


def test_statistics_of_a_source_without_pairs():
    found = pair_statistics(torch.full((2, 1, 3), 2.0))
    assert {name: float(value) for name, value in found.items()} == {"slope": 1, "offset": 2, "size": 2}


def test_statistics_of_the_attention_by_their_definition():
    _, pad_mask, words = batch_of()
    weights = torch.rand(len(LENGTHS), 3, max(LENGTHS), dtype=torch.float64).masked_fill(pad_mask.unsqueeze(1), 0.0)
    entropies, information = 0.0, 0.0
    for row, sentence in enumerate(words):
        if len(sentence) > 1:
            shares = [[w / sum(one) for w in one] for one in weights[row][~STEP_MASK[row]].tolist()]
            mean = [sum(column) / len(shares) for column in zip(*shares)]
            sharpness = sum(map(oracles.entropy, shares)) / math.log(len(sentence))
            entropies += sharpness
            information += len(shares) * oracles.entropy(mean) / math.log(len(sentence)) - sharpness
    found = attention_statistics(weights, pad_mask, STEP_MASK)
    assert {name: (float(term.value), term.weight) for name, term in found.items()} == {
        ENTROPY: (pytest.approx(entropies), 0.0),
        INFORMATION: (pytest.approx(information), 0.0),
    }


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (torch.full((1, 5, 5), 0.2), (1, 0)),  # nothing learned
        (torch.eye(5)[None], (0, 1)),  # an alignment
        (torch.eye(5)[None, :1].expand(1, 5, 5), (0, 0)),  # always the same word
        (torch.zeros(1, 5, 4), (0, 0)),
        (torch.tensor([[[1.0, 0], [1, 0], [1, 0], [0, 0], [0, 0]]]), (0, 0)),  # steps that attend to nothing
        (torch.tensor([[[1.0, 0], [0, 1], [1, 0], [0, 1], [0, 0]]]), (0, 0.8)),
    ],
)
def test_sharp_attention_and_attention_that_moves(weights, expected):
    found = [float(term.value) / 5 for term in attention_statistics(weights).values()]
    assert found == pytest.approx(expected, abs=1e-6)
    assert [float(term.value) / 5 for term in attention_statistics(weights.half()).values()] == pytest.approx(
        expected, abs=1e-3
    )


class Criterion(torch.nn.Module):
    """The sum of all logits, per word."""

    def forward(self, model, sample):
        logits = model(**sample)[0]
        words = sample["prev_output_tokens"].numel()
        return logits.sum(), words, {"ntokens": words}


@pytest.mark.parametrize(
    ("attention", "options", "names"),
    [
        ("structured", {"attention_bias": "fertility"}, {"fertility_penalty", "transition_penalty", *STATISTICS}),
        ("soft", {}, STATISTICS),
        ("mqt", {}, {*STATISTICS, *(f"pair_{name}_statistic" for name in ("slope", "offset", "size"))}),
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
    add_penalties(criterion)
    add_penalties(criterion)  # has no further effect
    assert wrapped_by(criterion, "forward") == ["penalties"]
    values = {}
    for training in (False, True):
        criterion.train(training)
        model.train(training)
        loss, _, logged = criterion(model, sample)
        statistics = set() if training else {name for name in names if name.endswith("_statistic")}
        assert set(logged) - {"ntokens"} == {name for name in names if name.endswith("_penalty")} | statistics
        values[training] = loss
    torch.testing.assert_close(values[False], plain)
    extra = 0
    if attention == "structured":
        logits, output = model(**sample)
        transitions = model.decoder.attention.transitions
        torch.testing.assert_close(logged["transition_penalty"], 0.5 * words * transitions.square().sum())
        torch.testing.assert_close(logged["fertility_penalty"], output["penalties"]["fertility_penalty"].value)
        extra = 0.1 * logged["fertility_penalty"] + 0.005 * logged["transition_penalty"]
        values[True].backward()
        assert (
            transitions.grad.abs().sum() > 0
            and model.decoder.attention.biases.fertility.predicted.weight.grad is not None
        )
    torch.testing.assert_close(values[True], plain + extra)
    assert not model._forward_hooks


def test_penalties_of_both_directions_add_up():
    """A statistic is that of the first one."""
    weights = {"a_penalty": 0.5, "b_statistic": 0.0}
    outputs = [
        {"penalties": {name: Penalty(torch.tensor(value), weight) for name, weight in weights.items()}}
        for value in (1.0, 2.0)
    ]
    model, criterion = torch.nn.Module(), torch.nn.Module()
    model.forward = lambda: (None, *outputs)
    criterion.forward = lambda model, sample: (0.0 * float(model() is None), 3, {})
    add_penalties(criterion)
    assert criterion(model, {}) == (1.5, 3, {"a_penalty": 3, "b_statistic": 1})


@pytest.mark.parametrize(
    "arch",
    ["lstm_structured", "lstm_latent_small --criterion latent_alignment --objective marginal --structured-scale 1"],
)
def test_criterions_of_any_family_log_the_penalties(arch, tiny_data, tmp_path):
    options = [*TINY["lstm_soft"][2:], "--log-format", "json", "--log-interval", 1, "--arch", *arch.split()]
    options += ["--attention", "structured", "--attention-bias", "fertility"]
    log = train(tiny_data, tmp_path, *options, updates=3).log
    assert f'"valid_{ENTROPY}": "' in log and f'"{ENTROPY}": "' not in log
    for name in ("fertility_penalty", "transition_penalty"):
        for prefix in ("", "valid_"):
            assert re.search(rf'"{prefix}{name}": "[\d.]+"', log), prefix + name


@pytest.mark.parametrize(
    ("bound", "remedy"), [(0.1, "--embed-init-range 1 in a new"), (1.0, "another --lr, such as 3e-3")]
)
def test_attention_that_does_not_move_is_said_once(bound, remedy, caplog):
    cfg = SimpleNamespace(model=SimpleNamespace(embed_init_range=bound))
    trainer = SimpleNamespace(updates=0)
    trainer.get_num_updates = lambda: trainer.updates
    watch = penalties._watching(lambda cfg, trainer, stats: stats)
    for updates, information in ((999, 0.2), (1200, 0.25), (1500, 0.2)):
        trainer.updates = updates
        stats = {"attention_information_statistic": information}
        assert watch(cfg, trainer, stats) is stats
    for stats in ({"attention_information_statistic": 0.6}, {}):
        watch(cfg, SimpleNamespace(get_num_updates=lambda: 5000), stats)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "attention_information_statistic 0.25 after 1200 updates" in caplog.text and remedy in caplog.text
