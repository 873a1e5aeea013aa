"""Exported graphs, run by onnxruntime, are the model: every mechanism, over steps of searches of different sizes."""

import pytest
import torch
from attention_cases import CASES, described, subject_of
from latent_models import make as make_latent
from models_for_tests import BIASED, FEEDING, LATENT, LINEAR, build, make

from fairseq_attn_plugin.attention import names
from fairseq_attn_plugin.decoding.export.onnx_folder import check_exportable, compare, export_folder
from fairseq_attn_plugin.decoding.export.onnx_graphs import quantize, write_graphs
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.ops.devices import exporting
from fairseq_attn_plugin.testing.subject import batch_of, draw_queries, precompute, stepwise

pytest.importorskip("onnxruntime", reason="NO TEST OF EXPORTED MODELS: onnxruntime is missing")
pytest.importorskip("onnx", reason="NO TEST OF EXPORTED MODELS: onnx is missing")

SYSTEMS = [(name, FEEDING[i % 3]) for i, name in enumerate([*names(), *BIASED, *LINEAR])]
EXPORTED = [*(f"latent/{name}" for name in ("soft", "structured", BIASED[0])), "latent-linear/soft", "latent-gru/soft"]
SYSTEMS += [(name, FEEDING[1 + i % 2]) for i, name in enumerate(LATENT) if name in EXPORTED]


def grown(model):
    """Weights larger than at initialisation, so that differences show."""
    for name, parameter in model.named_parameters():
        if "log_" not in name and not name.endswith("mean"):
            parameter.data *= 4
    return model


def check(model, folder, tolerance=1e-5):
    write_graphs(model, folder)
    found = compare(model, folder)
    assert max(found) < tolerance, found


@pytest.mark.parametrize(("attention", "feeding"), SYSTEMS)
def test_every_system(attention, feeding, tmp_path):
    check(grown(make(attention, feeding, torch.float32)), tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"decoder_attention": "False"},
        {"decoder_attention": "False", "decoder_zero_init": True, "decoder_out_embed_dim": 9},
        {"share_decoder_input_output_embed": True, "decoder_out_embed_dim": 12},
        {"encoder_layers": 1, "decoder_layers": 3, "encoder_bidirectional": False},
        {"attention_normalizer": "sparsemax", "attention_max_normalize": True},
        {"attention_normalizer": "entmax15", "attention_score": "additive"},
        {"attention_normalizer": "fusedmax", "attention_score": "additive"},
        {"encoder_rnn": "gru"},
        {"decoder_rnn": "gru", "decoder_layers": 3},
        {"copy_attention": True},
        {"copy_attention": True, "attention": "mqt", "input_feeding": "none", "decoder_out_embed_dim": 9},
        {"rnn": "gru", "decoder_attention": "False", "decoder_zero_init": True, "input_feeding": "none"},
    ],
    ids=str,
)
def test_options_of_models(options, tmp_path):
    check(grown(build("attn_lstm", seed=7, **options).eval()), tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"latent_topk": 3},
        {"latent_prediction": "soft"},
        {"latent_topk": 3, "output_layer": "linear"},
        {"output_layer": "linear"},
    ],
    ids=str,
)
def test_predictions_of_latent_models(options, tmp_path):
    check(make_latent(torch.float32, **options), tmp_path)


def test_parts_of_logits_that_share_no_words(tmp_path):
    """float32 would lose all words that count."""
    model = make_latent(torch.float32, output_layer="linear")
    weight, hidden = model.decoder.fc_out.weight.data, model.decoder.hidden_size
    weight[:4, :-hidden] *= 1000
    weight[4:, -hidden:] *= 1000
    check(model, tmp_path, 1e-3)


def test_words_and_lexicon(tmp_path):
    """Votes for words, and a lexicon's bias, need the words of source and target."""
    model = grown(build("attn_lstm", seed=7, attention="election", gaussian_ratio=1.3).eval())
    model.decoder.attention.table = torch.randint(4, 24, (19, 3))
    lexicon = model.decoder.lexicon
    lexicon.entries, lexicon.probabilities = torch.randint(4, 19, (24, 2)), torch.rand(24, 2)
    check(model, tmp_path)


@pytest.mark.parametrize(("name", "options"), CASES, ids=[described(*case) for case in CASES])
def test_the_form_for_export(name, options, monkeypatch):
    """With every option, in float64: the same weights as the mechanism itself, step after step."""
    attention, batch, query = subject_of(name, options).build().eval(), batch_of("right"), draw_queries(5)
    with torch.no_grad():
        expected = stepwise(attention, query, precompute(attention, batch.encodings, batch.pad_mask))
        monkeypatch.setattr(torch.onnx, "is_in_onnx_export", lambda: True)
        assert exporting()
        plain = attention.for_export()
        found = stepwise(plain, query, precompute(plain, batch.encodings, batch.pad_mask))
    torch.testing.assert_close(found, expected, rtol=1e-6, atol=1e-6 if "nodes" in options or name == "aqt" else 1e-9)


def test_a_difference_is_found(tmp_path):
    model = grown(make("soft", dtype=torch.float32))
    write_graphs(model, tmp_path)
    model.decoder.attention.score.projection.weight.data *= -1
    assert compare(model, tmp_path).weights > 1e-3


SHARED = {"share_decoder_input_output_embed": True, "decoder_out_embed_dim": 12}


@pytest.mark.parametrize("options", [{}, SHARED, {"attention_score": "additive"}], ids=str)
def test_int8_is_near(options, tmp_path):
    """Also where a weight has several uses: the first states of two layers, embeddings as vocabulary projection; and
    where it is one vector."""
    model = grown(make("mqt", dtype=torch.float32, **options))
    write_graphs(model, tmp_path)
    exact = weight_bytes(tmp_path / "step.onnx")
    quantize(tmp_path)
    found = compare(model, tmp_path)
    assert 1e-5 < found.probabilities < 0.05 and found.weights < 0.1
    assert weight_bytes(tmp_path / "step.onnx") < 0.6 * exact


def weight_bytes(path):
    import onnx

    return sum(weight.ByteSize() for weight in onnx.load(str(path)).graph.initializer)


def test_what_cannot_be_exported():
    for model, message in [
        (build("attn_lstm", adaptive_softmax_cutoff="8"), "the model has an adaptive softmax"),
        (build("lstm_latent_first_order_small", attention="soft"), "the model has first-order alignments"),
        (torch.nn.Linear(1, 1), "a Linear cannot be exported; must be a translation model of this package"),
    ]:
        with pytest.raises(OptionError, match=f"x.pt: {message}"):
            check_exportable(model, "x.pt")


def test_an_operation_that_onnx_lacks_is_one_line(tmp_path, capfd):
    model = make("soft", dtype=torch.float32)
    attention = model.decoder.attention
    step = attention.step
    attention.step = lambda query, *rest, **more: step(torch.special.i0e(query), *rest, **more)
    with pytest.raises(OptionError, match="step.onnx: the model cannot be recorded as ONNX: .*i0e"):
        write_graphs(model, tmp_path)
    assert not capfd.readouterr().out


def of_one_batch(out):
    """Adds zeros, as many as the recorded batch has sentences."""
    return out._replace(context=out.context + torch.zeros(len(out.context), 1, 1))


def halved(out):
    """The decision concerns the weights alone, which say where a word comes from."""
    return out._replace(weights=out.weights / (2 if exporting() else 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (of_one_batch, "the graphs fail where .*see for_export"),
        (halved, "by 0.* in weights"),
    ],
)
def test_decisions_of_a_mechanism_are_one_line(change, message, tmp_path):
    model = make("soft", dtype=torch.float32)
    step = model.decoder.attention.step
    model.decoder.attention.step = lambda *given: change(step(*given))
    with pytest.raises(OptionError, match=f"--to .*: .*{message}"):
        export_folder(model, tmp_path / "folder", None, {})
    assert not any(tmp_path.iterdir())
