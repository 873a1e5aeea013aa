"""The stepper with packed products and traced steps against that without, along a walk through a search."""

import pytest
import torch
from attention_cases import OWN, subject_of
from models_for_tests import build, enlarged, fake_task, pad_batch

from fairseq_attn_plugin.decoding import stepper as steppers
from fairseq_attn_plugin.decoding.stepper import ModelStepper, is_fixed
from fairseq_attn_plugin.modules import recurrence
from fairseq_attn_plugin.ops.precision import with_fixed

LENGTHS = [3, 6, 1, 4]
BEAM = 3


def make(**options):
    options = {"encoder_hidden_size": 7, "decoder_hidden_size": 14, **options}
    return enlarged(build("attn_lstm", seed=7, **options).eval(), 3)


def batch(lengths=LENGTHS, side="left"):
    tokens = pad_batch(lengths, side)
    return {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)}


def selections(sentences):
    """What a search does after each step: (rows, sentences that stay)."""
    yield torch.arange(sentences).repeat_interleave(BEAM), None
    reordered = torch.arange(sentences * BEAM).view(sentences, BEAM)
    yield reordered[:, [1, 1, 0]].flatten(), None
    if sentences > 2:
        stay = torch.tensor([0, 2, 3])
        yield reordered[stay][:, [2, 0, 0]].flatten(), stay
        yield reordered[:3][:, [0, 1, 0]].flatten(), None
        yield reordered[1:3].flatten(), torch.tensor([1, 2])


@torch.inference_mode()
def walk(stepper, net_input):
    """log p and weights of every step."""
    state, outputs = stepper.begin(net_input), []
    tokens = torch.full((len(net_input["src_tokens"]),), 2)
    for step, (rows, sentences) in enumerate(selections(len(tokens))):
        *output, state = stepper.step(tokens, state, step)
        outputs.append(output)
        state = stepper.select(state, rows, sentences)
        tokens = 4 + (torch.arange(len(rows)) * 7 + step) % 8  # words of attention_cases.TABLE
    outputs.append(stepper.step(tokens, state, step + 1)[:2])
    return outputs


@pytest.fixture(autouse=True, params=["traced", "untraced"])
def tracing(request, monkeypatch):
    monkeypatch.setattr(steppers, "UNTRACED", 0 if request.param == "traced" else 1 << 30)


def fixed(model, precision="float32", **options):
    return ModelStepper(model, precision=precision, **options)


def assert_same(model, net_input, tolerance=1e-5, **options):
    expected, found = walk(ModelStepper(model), net_input), walk(fixed(model, **options), net_input)
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)
    for log_probs, _ in found:
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(len(log_probs)))


# options with a trace and without one in turn, the mechanisms themselves with both
KINDS = ("traced", "untraced")
EACH = [
    (name, options, kind)
    for number, (name, options) in enumerate(OWN)
    for kind in ((KINDS[number % 2],) if options else KINDS)
]


@pytest.mark.parametrize(("name", "options", "tracing"), EACH, indirect=["tracing"], ids=str)
def test_every_mechanism(name, options, tracing):
    model = make()
    model.decoder.attention = subject_of(name, options).build(torch.float32, query_dim=14, memory_dim=14)
    assert_same(model, batch())


NONE, LINEAR, GRU = {"decoder_attention": "False"}, {"output_layer": "linear"}, {"rnn": "gru"}


@pytest.mark.parametrize(
    "options",
    [
        NONE,
        {**NONE, "input_feeding": "none"},
        {**NONE, "decoder_out_embed_dim": 9},
        {"input_feeding": "context"},
        {"input_feeding": "none"},
        {"decoder_layers": 1},
        {"decoder_layers": 3, "encoder_layers": 1},
        {"encoder_hidden_size": 4, "input_feeding": "context"},
        {"decoder_zero_init": True, "decoder_out_embed_dim": 9},
        {"decoder_embed_dim": 9, "decoder_out_embed_dim": 9, "share_decoder_input_output_embed": True},
        LINEAR,
        {**LINEAR, "input_feeding": "context", "attention_score": "additive"},
        {**LINEAR, "input_feeding": "none", "decoder_layers": 1},
        {**LINEAR, **NONE},
        {**LINEAR, "decoder_embed_dim": 28, "share_decoder_input_output_embed": True},
        {"attention_score": "scaled_dot"},
        {"attention_score_gain": True},
        {"attention_score": "dot"},
        {"attention_score": "additive"},
        GRU,
        {**GRU, "decoder_layers": 1, "input_feeding": "none"},
        {**GRU, "decoder_layers": 3, "encoder_layers": 1, "attention_score": "additive"},
        {**GRU, **NONE, "input_feeding": "none"},
        {**GRU, "decoder_zero_init": True, "input_feeding": "context"},
        {"encoder_rnn": "gru", "encoder_hidden_size": 4},
        {"decoder_rnn": "gru", **LINEAR},
    ],
    ids=str,
)
def test_every_shape_of_model(options):
    assert_same(make(**options), batch())


@pytest.mark.parametrize(
    ("lengths", "side"), [([5, 5], "left"), ([4], "left"), (LENGTHS, "right"), ([3, 0, 2, 1], "left")], ids=str
)
def test_paddings(lengths, side):
    assert_same(make(), batch(lengths, side))


def test_weights_only_where_they_are_wanted():
    model = make()
    model.make_generation_fast_(need_attn=False)
    model.decoder.need_attn = False
    assert_same(model, batch())
    assert walk(fixed(model), batch())[0][1] is None


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("rnn", ["lstm", "gru"])
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_are_close(precision, rnn):
    model = make(decoder_hidden_size=32, encoder_hidden_size=16, rnn=rnn)
    exact, rounded = walk(ModelStepper(model), batch()), walk(fixed(model, precision), batch())
    for one, other in zip(exact, rounded):
        assert 0 < (other[0] - one[0]).abs().max() < 0.2 * one[0].std()
        torch.testing.assert_close(other[1], one[1], rtol=0, atol=0.05)


def test_large_products_are_packed():
    """The sizes with which oneDNN's products are used."""
    sizes = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"), 256)
    assert_same(enlarged(make(encoder_hidden_size=128, decoder_hidden_size=256, **sizes), 1 / 3), batch(), 1e-4)


@pytest.mark.parametrize("rnn", ["lstm", "gru"])
def test_gates_of_words_are_looked_up_in_a_table_of_limited_size(rnn, monkeypatch):
    model, tables = make(rnn=rnn), []
    for most in (recurrence.MOST_GATES, 0):
        monkeypatch.setattr(recurrence, "MOST_GATES", most)
        stepper = fixed(model)
        walk(stepper, batch())
        tables.append([name for name in stepper.weights._kept if "gates" in name])
        assert_same(model, batch())
    assert tables == [[(id(model.decoder.rnn), "gates")], []]


@pytest.mark.parametrize(
    ("options", "traces"),
    [
        ({}, True),
        ({"attention": "mqt", "output_layer": "linear"}, True),
        ({"input_feeding": "none"}, True),
        ({"decoder_attention": "False"}, True),
        ({"rnn": "gru"}, True),
        ({"attention": "structured"}, False),
        ({"attention_normalizer": "sparsemax"}, False),
        ({"attention_bias": "markov"}, False),
    ],
    ids=str,
)
def test_which_steps_are_traced(options, traces, tracing):
    stepper = fixed(make(**options))
    walk(stepper, batch())
    assert stepper.traces == traces
    assert bool(stepper.traced) == (traces and steppers.UNTRACED == 0)
    assert all(isinstance(step, torch.jit.ScriptModule) for step in stepper.traced.values())


def test_other_sizes_of_a_batch_take_the_same_trace():
    model = make()
    stepper = fixed(model)
    for lengths in ([3, 6, 1, 4], [9, 2], [5, 5, 3, 1, 7, 2]):
        expected = walk(ModelStepper(model), batch(lengths))
        torch.testing.assert_close(walk(stepper, batch(lengths)), expected, rtol=1e-5, atol=1e-5)
    assert len(stepper.traced) <= 1


@pytest.mark.parametrize(
    ("options", "ready", "answer"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"adaptive_softmax_cutoff": "5,10", "decoder_out_embed_dim": 14}, True, False),
    ],
    ids=str,
)
def test_which_models_are_fixed(options, ready, answer):
    model = build("attn_lstm", fake_task(), **options)
    if ready:
        model.make_generation_fast_(need_attn=True)
    assert is_fixed(model) == answer
    assert not is_fixed(model.half())


def test_retained_dropout_is_not_traced_and_its_gates_are_not_looked_up():
    model = make(dropout=0.1)
    assert fixed(model).traces
    model.decoder.dropout_out_module.make_generation_fast_(retain_dropout=True, name="decoder")
    assert not fixed(model).traces
    model.decoder.dropout_in_module.make_generation_fast_(retain_dropout=True, name="decoder")
    stepper = fixed(model)
    walk(stepper, batch())
    assert not any("gates" in name for name in stepper.weights._kept)


def test_whole_targets_have_the_gates_of_their_words():
    model, net_input = make(), batch()
    given = {**net_input, "prev_output_tokens": 4 + torch.arange(24).view(4, 6) % 8}
    with with_fixed(fixed(model).weights):
        found = model(**given)[0]
    torch.testing.assert_close(found, model(**given)[0], rtol=1e-5, atol=1e-5)


def test_without_torchscript(monkeypatch):
    def missing(*parts, **options):
        raise RuntimeError

    monkeypatch.setattr(torch.jit, "trace", missing)
    monkeypatch.setattr(torch.jit, "script", missing)
    assert_same(make(), batch())


def test_a_later_change_of_the_model_is_not_taken_for_its_weights():
    model = make()
    stepper, expected = fixed(model), walk(ModelStepper(model), batch())
    walk(stepper, batch())
    model.double()
    model.float()
    torch.testing.assert_close(walk(stepper, batch()), expected, rtol=1e-5, atol=1e-5)


def test_an_intervention_in_the_attention_is_not_left_out():
    model = make()
    stepper, usual = fixed(model), walk(fixed(model), batch())
    walk(stepper, batch())
    model.decoder.intervention = lambda query, found: found._replace(context=0 * found.context)
    changed = walk(stepper, batch())
    assert (changed[-1][0] - usual[-1][0]).abs().max() > 1e-3
    torch.testing.assert_close(changed[-1][0], walk(ModelStepper(model), batch())[-1][0], rtol=1e-5, atol=1e-5)
