"""Encoders and decoders against torch's LSTM and GRU, ``--rnn gru``, kinds that are mixed, and what GRUs exclude."""

import pytest
import torch
from models_for_tests import LENGTHS, build, make, pad_batch, targets, watched
from test_han import DOCUMENTS, batch
from test_han import build as build_classifier

from fairseq_attn_plugin.modules.encoders import encoder as encoders
from fairseq_attn_plugin.modules.encoders import ragged
from fairseq_attn_plugin.ops import lstm as lstm_ops
from fairseq_attn_plugin.ops.precision import products_in


def factors(x):
    return torch.linspace(-1, 1, x.size(-1), dtype=x.dtype)


@pytest.mark.parametrize("by", ["torch", "layers"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_encoder_equals_torchs_on_every_sentence_alone_forward_and_backward(kind, side, bidirectional, by, monkeypatch):
    encoder = make("soft", rnn=kind, encoder_bidirectional=bidirectional).encoder
    monkeypatch.setattr(encoders, "computed_by_layers", lambda x, rnn: by == "layers")
    source = pad_batch([3, 6, 0, 4], side, width=7)
    with products_in(torch.float64):
        out = encoder(source)
    assert (out["cell"] is None) == (kind == "gru") == (encoder.kind == "gru")
    states = [out[name] for name in encoder.states]
    total = sum((x * factors(x)).sum() for x in (out["encodings"], *states))
    expected = 0
    for row, tokens in enumerate(source):
        real = tokens.ne(1)
        assert out["encodings"][row, ~real].eq(0).all()
        if not real.any():
            assert all(state[row].eq(0).all() for state in states)
            continue
        encodings, last = encoder.rnn(encoder.embed_tokens(tokens[real]).unsqueeze(0))
        torch.testing.assert_close(out["encodings"][row, real], encodings[0])
        expected = expected + (encodings * factors(encodings)).sum()
        for state, one in zip(states, last if kind == "lstm" else [last]):
            one = one.view(2, 1 + bidirectional, -1).flatten(1)
            torch.testing.assert_close(state[row], one)
            expected = expected + (one * factors(one)).sum()
    parameters = list(encoder.parameters())
    torch.testing.assert_close(*(torch.autograd.grad(x, parameters) for x in (total, expected)))


@pytest.mark.parametrize("feeding", ["output", "context", "none"])
def test_decoder_equals_torchs_gru_step_by_step(feeding):
    """The states that the attention is asked with, from cells of torch: its last answer is fed."""
    model, target = make("gru/soft", feeding), targets()
    decoder, calls = model.decoder, watched(model)
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


@pytest.mark.parametrize(("arch", "networks"), [("lstm_latent_small", 4), ("lstm_agreement_small", 4)])
def test_other_families(arch, networks):
    """The posterior's networks and both directions have the encoder's kind."""
    names = build(arch, rnn="gru").state_dict()
    assert not any(".lstm." in name for name in names)
    assert len({name.split(".gru.")[0] for name in names if ".gru." in name}) == networks


def test_documents_in_bfloat16_have_layers_of_our_own(monkeypatch, bfloat16):
    model = build_classifier(dtype=torch.float32, rnn="gru", matmul_precision="bfloat16").train()
    calls = []
    layer = ragged.rnn_layer
    monkeypatch.setattr(lstm_ops, "LEAST_PRODUCTS", 0)
    monkeypatch.setattr(ragged, "rnn_layer", lambda *args: calls.append(args) or layer(*args))
    logits, _ = model(batch(DOCUMENTS), classification_head_name="head")
    assert calls and logits.dtype == torch.float32


def test_forget_bias_is_of_the_lstm_alone():
    model = build("attn_lstm", encoder_rnn="gru", forget_bias=1.0, decoder_layers=1)
    lstm = model.decoder.lstm
    assert torch.equal((lstm.bias_ih_l0 + lstm.bias_hh_l0).chunk(4)[1], torch.ones(14))
