"""``--rnn gru``: encoders and decoders against torch's GRU, kinds that are mixed, and what GRUs exclude."""

import pytest
import torch
from model_systems import LENGTHS, make, targets
from models_for_tests import build, pad_batch
from test_han import build as build_classifier

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.encoders import encoder as encoders
from fairseq_attn_plugin.modules.encoders import ragged
from fairseq_attn_plugin.ops import lstm as lstm_ops
from fairseq_attn_plugin.ops.precision import products_in


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("by", ["torch", "layers"])
def test_encoder_equals_torchs_gru_on_every_sentence_alone(side, by, monkeypatch):
    encoder = make("gru/soft").encoder
    monkeypatch.setattr(encoders, "computed_by_layers", lambda x, rnn: by == "layers")
    source = pad_batch([3, 6, 0, 4], side, width=7)
    with products_in(torch.float64):
        out = encoder(source)
    assert out["cell"] is None and encoder.kind == "gru"
    for row, tokens in enumerate(source):
        real = tokens.ne(1)
        assert out["encodings"][row, ~real].eq(0).all()
        if real.any():
            encodings, last = encoder.gru(encoder.embed_tokens(tokens[real]).unsqueeze(0))
            torch.testing.assert_close(out["encodings"][row, real], encodings[0])
            torch.testing.assert_close(out["hidden"][row], last.view(2, 2, -1).flatten(1))
        else:
            assert out["hidden"][row].eq(0).all()


@pytest.mark.parametrize("feeding", ["output", "context", "none"])
def test_decoder_equals_torchs_gru_step_by_step(feeding):
    """The states that the attention is asked with, from cells of torch: its last answer is fed."""
    model, target = make("gru/soft", feeding), targets()
    decoder, calls = model.decoder, []
    step = decoder.attention.step

    def spy(query, *rest, **more):
        calls.append((query, step(query, *rest, **more)))
        return calls[-1][1]

    decoder.attention.step = spy
    model(pad_batch(LENGTHS), None, target)
    queries, contexts = (torch.cat(parts, 1) for parts in zip(*((query, out.context) for query, out in calls)))
    encoder_out = model.encoder(pad_batch(LENGTHS))
    states = list(decoder.hidden_projection(encoder_out["hidden"]).unbind(1))
    feed = torch.zeros(len(target), decoder.feed_size, dtype=torch.float64)
    cells = []
    for layer in range(2):
        cell = torch.nn.GRUCell(decoder.gru.input_size if not layer else 14, 14).double()
        cell.load_state_dict(
            {key: decoder.gru.state_dict()[f"{key}_l{layer}"] for key in cell.state_dict()}  # the names are torch's
        )
        cells.append(cell)
    for t in range(target.size(1)):
        x = torch.cat([decoder.embed_tokens(target[:, t]), feed], -1)
        for layer, cell in enumerate(cells):
            x = states[layer] = cell(x, states[layer])
        torch.testing.assert_close(queries[:, t], x)
        context = contexts[:, t]
        if feeding == "output":
            feed = torch.tanh(decoder.output_projection(torch.cat([context, x], -1)))
        elif feeding == "context":
            feed = context


def test_gradients_of_the_loop():
    """Numerical gradients of the embeddings through encoder, loop and attention."""
    model = make("gru/soft", encoder_layers=1, decoder_hidden_size=4, decoder_out_embed_dim=4)
    for module in (model.encoder, model.decoder):
        module.embed_tokens.weight.data *= 3
    source, target = pad_batch([3, 2]), targets(2, 3)
    weights = [model.encoder.embed_tokens.weight, model.decoder.gru.weight_hh_l1, model.decoder.gru.weight_ih_l0]

    def loss():
        return model(source, None, target)[0].sin().sum()

    gradients = torch.autograd.grad(loss(), weights)
    for weight, gradient in zip(weights, gradients):
        direction = torch.randn_like(weight)
        with torch.no_grad():
            ends = []
            for sign in (1, -1):
                weight.add_(direction, alpha=sign * 1e-6)
                ends.append(loss())
                weight.sub_(direction, alpha=sign * 1e-6)
        numerical = (ends[0] - ends[1]) / 2e-6
        torch.testing.assert_close((gradient * direction).sum(), numerical, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    ("options", "encoder", "decoder", "projections"),
    [
        ({"rnn": "gru"}, "gru", "gru", ["hidden"]),
        ({"encoder_rnn": "gru"}, "gru", "lstm", ["hidden", "cell"]),
        ({"decoder_rnn": "gru"}, "lstm", "gru", ["hidden"]),
        ({"rnn": "gru", "decoder_rnn": "lstm"}, "gru", "lstm", ["hidden", "cell"]),
        # of equal sizes, the states need no projection, except where the kind has more of them than the encoder
        ({"rnn": "gru", "decoder_hidden_size": 16}, "gru", "gru", []),
        ({"encoder_rnn": "gru", "decoder_hidden_size": 16}, "gru", "lstm", ["hidden", "cell"]),
        ({"decoder_hidden_size": 16}, "lstm", "lstm", []),
        ({"encoder_rnn": "gru", "decoder_zero_init": True}, "gru", "lstm", []),
    ],
    ids=str,
)
def test_kinds_may_be_mixed(options, encoder, decoder, projections):
    model = build("attn_lstm", **options)
    names = {name.rpartition(".")[0] for name, _ in model.named_parameters()}
    assert {f"encoder.{encoder}", f"decoder.{decoder}"} <= names
    assert {f"{p}_projection" for p in projections} == {
        n.split(".")[1] for n in names if "l_projection" in n or "n_proj" in n
    }
    logits, _ = model(pad_batch(LENGTHS), None, targets())
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("arch", ["lstm_latent_small", "lstm_agreement_small"])
def test_other_families(arch):
    """The posterior and both directions have the encoder's kind."""
    model = build(arch, rnn="gru")
    names = set(model.state_dict())
    assert not any(".lstm." in name for name in names)
    assert any(
        name.startswith(("posterior.target.gru", "models.yy-xx.encoder.gru")) or ".gru." in name for name in names
    )


def test_documents_in_bfloat16_have_layers_of_our_own(monkeypatch, bfloat16):
    model = build_classifier(dtype=torch.float32, rnn="gru", matmul_precision="bfloat16").train()
    calls = []
    layer = ragged.rnn_layer
    monkeypatch.setattr(lstm_ops, "LEAST_PRODUCTS", 0)
    monkeypatch.setattr(ragged, "rnn_layer", lambda *args: calls.append(args) or layer(*args))
    from test_han import DOCUMENTS, batch

    logits, _ = model(batch(DOCUMENTS), classification_head_name="head")
    assert calls and logits.dtype == torch.float32


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"rnn": "rnn"}, "^--rnn rnn: must be lstm or gru$"),
        ({"encoder_rnn": "GRU"}, "^--encoder-rnn GRU: must be lstm or gru$"),
    ],
)
def test_mistakes(options, words):
    with pytest.raises(OptionError, match=words):
        build("attn_lstm", **options)


def test_forget_bias_of_the_lstm_alone():
    model = build("attn_lstm", encoder_rnn="gru", forget_bias=1.0, decoder_layers=1)
    lstm = model.decoder.lstm
    assert torch.equal((lstm.bias_ih_l0 + lstm.bias_hh_l0).chunk(4)[1], torch.ones(14))
