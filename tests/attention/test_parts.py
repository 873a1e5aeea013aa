"""Scores, normalisers, biases and options of mechanisms: what the oracles do not see, names and checkpoints."""

import math

import pytest
import torch
from refusals import refuses

from fairseq_attn_plugin.attention import BIASES, NORMALIZERS, PARTS, SCORES, AttentionConfig, build_attention
from fairseq_attn_plugin.attention.normalizers import LOG_ZERO, divide_by_maximum, log_of_weights
from fairseq_attn_plugin.attention.soft import SoftAttention
from fairseq_attn_plugin.errors import OptionError

# --- scores


@pytest.mark.parametrize(
    ("name", "option", "parameter", "value"),
    [
        ("soft", "score_gain", "score.gain", 1),
        ("mqt", "score_gain", "score.gain", 1),
        ("structured", "zero_init", "transitions", 0),
    ],
)
def test_numbers_that_start_as_they_are_draw_nothing(name, option, parameter, value):
    """All other parameters of a new module are those without the option."""
    states = []
    for given in (False, True):
        torch.manual_seed(1)
        states.append(dict(build_attention(name, query_dim=5, memory_dim=5, **{option: given}).named_parameters()))
    plain, found = states
    assert (found.pop(parameter) == value).all()
    for other, drawn in found.items():
        assert torch.equal(plain[other], drawn), other


@refuses(
    (
        "soft",
        {"score": "additive", "score_gain": True},
        "--attention-score-gain: is for the score general, and this attention has --attention-score additive",
    ),
    (
        "soft",
        {"score_no_bias": True},
        "--attention-score-no-bias: is for the score additive, and this attention has --attention-score general",
    ),
    ("gaussian", {"score_no_bias": True}, "--attention-score-no-bias: gaussian attention has no scores"),
    ("aqt", {"score_gain": True}, "this attention has --attention-score additive"),
    ("gaussian", {"score_gain": True}, "--attention-score-gain: gaussian attention has no scores; leave it out"),
    ("constrained-sparsemax", {"fertility": 0.0}, "--constrained-fertility 0.0: must be above 0"),
    ("constrained-sparsemax", {"exhaustion": -1.0}, "--constrained-exhaustion -1.0: must be 0 or more"),
    ("constrained-sparsemax", {"normalizer": "sparsemax"}, "constrained-sparsemax attention defines how scores"),
    ("monotonic", {"offset": float("nan")}, "--monotonic-offset nan: must be a number"),
    ("monotonic", {"noise": -0.5}, "--monotonic-noise -0.5: must be 0 or more"),
    ("mocha", {"chunk": 0}, "--monotonic-chunk 0: must be at least 1 word"),
    ("mocha", {"normalizer": "sparsemax"}, "mocha attention defines how scores become weights"),
    ("monotonic", {"max_normalize": True}, "monotonic attention cannot divide its weights"),
)
def test_wrong_options_of_mechanisms(name, options):
    build_attention(name, query_dim=6, memory_dim=6, **options)


# --- normalisers


def test_a_row_of_zeros_stays_zero_with_finite_gradients():
    weights = torch.tensor([[0.0, 0.0], [1e-38, 0.0]], requires_grad=True)
    divided = divide_by_maximum(weights)
    divided.sum().backward()
    assert divided[0].tolist() == [0.0, 0.0] and weights.grad.isfinite().all()


def test_logarithms_are_exact_down_to_the_floor():
    weights = torch.tensor([[1.0, 1e-12, 1e-25, 0.0, 0.3]])
    logs = log_of_weights(weights, torch.tensor([[False, False, False, False, True]]))
    expected = torch.tensor([[0.0, math.log(1e-12), math.log(1e-25), math.log(1e-30), LOG_ZERO]])
    torch.testing.assert_close(logs, expected, rtol=1e-6, atol=0)


# --- biases


def test_an_additive_score_has_a_bias_or_none():
    plain, without = (
        dict(build_attention("soft", 6, 4, score="additive", score_no_bias=no_bias).named_parameters())
        for no_bias in (False, True)
    )
    assert plain.keys() - without.keys() == {"score.memory_projection.bias"} and len(without) == 3


# --- the registries

# Parameters of all biases, one module with these names, before each bias was a module of its own.
EARLIER = {
    "position_vector": (3,),
    "fertility_vector": (3,),
    "position.weight": (3, 3),
    "position.bias": (3,),
    "markov.weight": (1, 5),
    "fertility.weight": (3, 5),
    "fertility.bias": (3,),
    "predicted.weight": (2, 4),
    "predicted.bias": (2,),
}


def biased(bias="position,markov,fertility"):
    return build_attention("soft", query_dim=4, memory_dim=4, bias=bias, bias_window=2, bias_dim=3)


@pytest.mark.parametrize("bias", ["", "position", "markov"])
def test_biases_leave_a_mechanism_recurrent(bias):
    kind = type("Recurrent", (SoftAttention,), {"recurrent": True})
    assert kind(5, 5, AttentionConfig(bias=bias)).recurrent


def test_parameters_of_earlier_checkpoints_are_found():
    module = biased()
    values = {f"biases.{name}": torch.randn(shape) for name, shape in EARLIER.items()}
    module.load_state_dict({**values, "score.projection.weight": torch.randn(4, 4)})
    biases = module.biases
    torch.testing.assert_close(biases.position.vector, values["biases.position_vector"])
    torch.testing.assert_close(biases.fertility.projection.bias, values["biases.fertility.bias"])
    torch.testing.assert_close(biases.markov.projection.weight, values["biases.markov.weight"])
    torch.testing.assert_close(biases.fertility.predicted.weight, values["biases.predicted.weight"])
    assert biases.reordered and not biased().biases.reordered
    assert sum(p.numel() for p in biases.parameters()) == sum(value.numel() for value in values.values())


def test_a_bias_that_is_missing_in_an_earlier_checkpoint_is_named():
    with pytest.raises(RuntimeError, match="biases.markov.projection.weight"):
        biased("markov").load_state_dict({"score.projection.weight": torch.randn(4, 4)})


def test_options_may_be_named_in_full_or_without_attention():
    for name in ("attention_bias_dim", "bias_dim"):
        module = build_attention("aqt", query_dim=4, memory_dim=4, bias="position", nodes=5, **{name: 7})
        assert module.biases.position.vector.shape == (7,) and module.config.nodes == 5
    with pytest.raises(OptionError, match="attention soft has no option 'bias_with'; it has attention_bias, "):
        build_attention("soft", query_dim=4, memory_dim=4, bias_with=7)


def test_unknown_names_are_named_with_what_there_is():
    assert [parts.option for _, parts in PARTS] == ["--attention-score", "--attention-normalizer", "--attention-bias"]
    for parts in (SCORES, NORMALIZERS, BIASES):
        with pytest.raises(OptionError, match=f"^{parts.option} x: .*choose from {', '.join(parts.names())}, or give"):
            parts.find("x")


@pytest.mark.parametrize("name", ["has space", "a,b", "train", "1st", ""])
def test_names_that_are_none(name):
    for parts in (SCORES, NORMALIZERS, BIASES):
        with pytest.raises(ValueError, match="is no name for a"):
            parts.register(name)(parts.find(parts.names()[0]))
        assert name not in parts.names()


def test_a_table_of_an_older_checkpoint_of_constrained_sparsemax():
    module = build_attention("constrained-sparsemax", query_dim=4, memory_dim=4, fertility=2.5)
    module.load_state_dict({**module.state_dict(), "table": torch.tensor([2.5, 2.0, 1.0])})
    memory = module.precompute(torch.zeros(1, 3, 4), source_tokens=torch.tensor([[1, 0, 2]]))
    assert memory.fertility.tolist() == [[2.0, 2.5, 1.0]] and memory.sink.tolist() == [[False, False, True]]
