"""The packed stepper against the plain one: logits, attention and states along a walk through a search."""

import pytest
import torch
from attention_cases import mechanisms, subject_of
from models_for_tests import build, fake_task, pad_batch

from fairseq_attn_plugin.decoding import step_modules
from fairseq_attn_plugin.decoding.options import PRECISIONS
from fairseq_attn_plugin.decoding.packed import PackedStepper, is_packable
from fairseq_attn_plugin.decoding.packed_gru import gru_step
from fairseq_attn_plugin.decoding.step_modules import gate_order, lstm_cell_
from fairseq_attn_plugin.decoding.stepper import ModelStepper
from fairseq_attn_plugin.ops.gru_cell import gru_cell
from fairseq_attn_plugin.ops.lstm_cell import lstm_cell

LENGTHS = [3, 6, 1, 4]
BEAM = 3


def make(**options):
    torch.manual_seed(7)
    model = build("attn_lstm", **{"encoder_hidden_size": 7, "decoder_hidden_size": 14, **options}).eval()
    for parameter in model.parameters():  # larger than at initialisation, so that differences show
        parameter.data *= 3
    return model


def batch(lengths=LENGTHS, side="left"):
    tokens = pad_batch(lengths, side)
    return {"src_tokens": tokens, "src_lengths": tokens.ne(1).sum(1)}


def selections(sentences):
    """What a search does after each step: (rows, sentences that stay)."""
    first = torch.arange(sentences).repeat_interleave(BEAM)
    yield first, None
    reordered = torch.arange(sentences * BEAM).view(sentences, BEAM)
    yield reordered[:, [1, 1, 0]].flatten(), None
    if sentences > 2:
        stay = torch.tensor([0, 2, 3])
        yield reordered[stay][:, [2, 0, 0]].flatten(), stay
        yield reordered[:3][:, [0, 1, 0]].flatten(), None
        yield reordered[1:3].flatten(), torch.tensor([1, 2])


@torch.inference_mode()
def walk(stepper, net_input):
    """The outputs of every step."""
    state, outputs = stepper.begin(net_input), []
    tokens = torch.full((len(net_input["src_tokens"]),), 2)
    for step, (rows, sentences) in enumerate(selections(len(tokens))):
        output, state = stepper.step(tokens, state, step)
        outputs.append(output)
        state = stepper.select(state, rows, sentences)
        tokens = 4 + (torch.arange(len(rows)) * 7 + step) % 8  # words of attention_cases.TABLE
    outputs.append(stepper.step(tokens, state, step + 1)[0])
    return outputs


def assert_same(model, net_input, tolerance=1e-5, **options):
    expected, found = walk(ModelStepper(model), net_input), walk(PackedStepper(model, **options), net_input)
    for one, other in zip(expected, found):
        torch.testing.assert_close(other.logits, one.logits, rtol=tolerance, atol=tolerance)
        assert (other.weights is None) == (one.weights is None)
        if one.weights is not None:
            torch.testing.assert_close(other.weights, one.weights, rtol=tolerance, atol=tolerance)


@mechanisms
def test_every_mechanism(name, options):
    model = make()
    model.decoder.attention = subject_of(name, options).build(torch.float32, query_dim=14, memory_dim=14)
    assert_same(model, batch())


@pytest.mark.parametrize(
    "options",
    [
        {"decoder_attention": "False"},
        {"decoder_attention": "False", "input_feeding": "none"},
        {"decoder_attention": "False", "decoder_out_embed_dim": 9},
        {"input_feeding": "context"},
        {"input_feeding": "none"},
        {"decoder_layers": 1},
        {"decoder_layers": 3, "encoder_layers": 1},
        {"encoder_hidden_size": 4},
        {"encoder_hidden_size": 4, "input_feeding": "context"},
        {"decoder_zero_init": True},
        {"decoder_out_embed_dim": 9},
        {"decoder_embed_dim": 9, "decoder_out_embed_dim": 9, "share_decoder_input_output_embed": True},
        {"output_layer": "linear"},
        {"output_layer": "linear", "input_feeding": "context", "attention_score": "additive"},
        {"output_layer": "linear", "input_feeding": "none", "decoder_layers": 1},
        {"output_layer": "linear", "decoder_attention": "False"},
        {"output_layer": "linear", "decoder_embed_dim": 28, "share_decoder_input_output_embed": True},
        {"attention_score": "scaled_dot"},
        {"attention_score_gain": True},
        {"attention_score": "dot"},
        {"attention_score": "additive"},
        {"rnn": "gru"},
        {"rnn": "gru", "decoder_layers": 1, "input_feeding": "none"},
        {"rnn": "gru", "decoder_layers": 3, "encoder_layers": 1, "attention_score": "additive"},
        {"rnn": "gru", "decoder_attention": "False", "input_feeding": "none"},
        {"rnn": "gru", "decoder_zero_init": True, "input_feeding": "context"},
        {"encoder_rnn": "gru"},
        {"encoder_rnn": "gru", "encoder_hidden_size": 4},
        {"decoder_rnn": "gru", "output_layer": "linear"},
    ],
    ids=str,
)
def test_every_shape_of_model(options):
    assert_same(make(**options), batch())


@pytest.mark.parametrize("lengths", [[5, 5], [4]], ids=str)
def test_without_padding(lengths):
    assert_same(make(), batch(lengths))


def test_right_padding():
    assert_same(make(), batch(side="right"))


def test_a_source_of_padding_only():
    assert_same(make(), batch([3, 0, 2, 1]))


def test_weights_only_where_they_are_wanted():
    model = make()
    model.make_generation_fast_(need_attn=False)
    model.decoder.need_attn = False
    assert_same(model, batch())
    assert walk(PackedStepper(model), batch())[0].weights is None


def test_temperature():
    model = make()
    warm = walk(PackedStepper(model, temperature=2.0), batch())
    for one, other in zip(walk(ModelStepper(model, temperature=2.0), batch()), warm):
        torch.testing.assert_close(other.logits, one.logits, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("rnn", ["lstm", "gru"])
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_are_close(precision, rnn):
    model = make(decoder_hidden_size=32, encoder_hidden_size=16, rnn=rnn)
    exact, rounded = walk(ModelStepper(model), batch()), walk(PackedStepper(model, precision), batch())
    for one, other in zip(exact, rounded):
        spread = one.logits.std()
        assert 0 < (other.logits - one.logits).abs().max() < 0.2 * spread
        torch.testing.assert_close(other.weights, one.weights, rtol=0, atol=0.05)


def test_large_products_are_packed():
    """The sizes with which oneDNN's products are used."""
    sizes = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim", "decoder_out_embed_dim"), 256)
    model = make(encoder_hidden_size=128, decoder_hidden_size=256, **sizes)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter /= 3
    stepper = PackedStepper(model)
    assert stepper.layers.first.few < len(LENGTHS) * BEAM  # oneDNN's from the second step on
    assert_same(model, batch(), 1e-4)


def test_words_are_a_table():
    stepper = PackedStepper(make())
    words, table = stepper.words, stepper.words.table
    assert table is not None
    torch.testing.assert_close(words(torch.tensor([5, 3])), table[[5, 3]])


def test_a_table_that_is_too_large_is_not_made(monkeypatch):
    monkeypatch.setattr(step_modules, "TABLE", 4 * 14 * 18)
    model = make()
    assert PackedStepper(model).words.table is None
    assert_same(model, batch())


def test_without_torchscript(monkeypatch):
    monkeypatch.setattr(torch.jit, "script", None)
    model = make()
    assert isinstance(PackedStepper(model).soft, step_modules.SoftStep)
    assert_same(model, batch())


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_parts_are_compiled(precision):
    soft, additive = (PackedStepper(make(attention_score=score), precision) for score in ("general", "additive"))
    assert additive.soft is None
    parts = [soft.soft, additive.layers, additive.head]
    if precision != "float32":  # whose encoder has no loop
        parts += sum(soft.encode.layers, [])
        assert len(parts) == 7
    assert all(isinstance(part, torch.jit.ScriptModule) for part in parts)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", PRECISIONS)
def test_parts_of_a_gru_are_compiled(precision):
    stepper = PackedStepper(make(rnn="gru", attention_score="additive"), precision)
    parts = [stepper.layers, stepper.start, *sum(stepper.encode.layers, [])]
    assert len(parts) == 6 and all(isinstance(part, torch.jit.ScriptModule) for part in parts)


def test_gru_step_is_the_cell():
    torch.manual_seed(2)
    inputs, of_state = (3 * torch.randn(5, 12, dtype=torch.float64) for _ in range(2))
    hidden = torch.randn(5, 4, dtype=torch.float64)
    expected = gru_cell(inputs, of_state, hidden)
    into = torch.empty_like(hidden)
    gru_step(inputs, of_state.clone(), hidden, into)
    gru_step(inputs, of_state, hidden, hidden)  # in place
    torch.testing.assert_close((into, hidden), (expected, expected))


def test_cell_is_the_cell():
    torch.manual_seed(2)
    gates, cell = 3 * torch.randn(5, 16, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64)
    hidden, scaled = torch.empty_like(cell), -2 * cell
    lstm_cell_(gate_order(gates.t()).t().contiguous(), scaled, hidden)
    for one, other in zip((hidden, scaled / -2), lstm_cell(gates, cell)):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"output_layer": "linear"},
        {"output_layer": "linear", "input_feeding": "none"},
        {"input_feeding": "context"},
        {"decoder_attention": "False"},
        {"attention": "mqt"},
        {"rnn": "gru"},
    ],
)
def test_steps_are_compiled(options):
    stepper = PackedStepper(make(**options))
    parts = [stepper.layers, stepper.head] if stepper.soft is None else [stepper.soft]
    assert all(isinstance(part, torch.jit.ScriptModule) for part in parts)


@pytest.mark.parametrize(
    ("arch", "options", "packable"),
    [
        ("attn_lstm", {}, True),
        ("attn_lstm", {"adaptive_softmax_cutoff": "5,10", "decoder_out_embed_dim": 14}, False),
        ("lstm", {}, False),
    ],
)
def test_which_models_are_packed(arch, options, packable):
    assert is_packable(build(arch, fake_task(), **options)) == packable


def test_retained_dropout_is_not_packed():
    model = make(dropout=0.1)
    assert is_packable(model)
    model.decoder.dropout_out_module.make_generation_fast_(retain_dropout=True, name="decoder")
    assert not is_packable(model)
