"""``--output-layer linear``: softmax(W [c; s] + b), with and without latent alignments, and what it excludes."""

import pytest
import torch
from fairseq.models import MODEL_DATACLASS_REGISTRY
from latent_models import PAD, sample
from latent_models import make as make_latent
from models_for_tests import LENGTHS, build, dictionary, fake_task, make, pad_batch, save_checkpoint, targets, watched
from refusals import refuses

from fairseq_attn_plugin.errors import OptionError

CONTEXT, STATE = 16, 14


@pytest.mark.parametrize("feeding", ["output", "context", "none"])
def test_logits_are_linear_in_context_and_state(feeding):
    model = make("linear/soft", feeding)
    calls = watched(model)
    logits, _ = model(pad_batch(LENGTHS), None, targets())
    state, context = (torch.cat(parts, 1) for parts in zip(*((query, out.context) for query, out in calls)))
    matrix, bias = model.decoder.fc_out.weight, model.decoder.fc_out.bias
    expected = context @ matrix[:, :CONTEXT].t() + state @ matrix[:, CONTEXT:].t() + bias
    torch.testing.assert_close(logits, expected)
    assert model.decoder.lstm.input_size == 12 + {"output": CONTEXT + STATE, "context": CONTEXT, "none": 0}[feeding]
    assert model.decoder.additional_fc is None and model.decoder.output_projection is None


def test_context_and_state_are_fed():
    """A step by hand: the second step's LSTM reads the word and [c; s] of the first."""
    model = make("linear/soft", decoder_layers=1)
    calls = watched(model)
    target = targets()
    model(pad_batch(LENGTHS), None, target)
    (first, out), (second, _) = calls[:2]
    decoder = model.decoder
    progress = {}
    decoder.attention.step = type(decoder.attention).step.__get__(decoder.attention)
    decoder(target[:, :1], model.encoder(pad_batch(LENGTHS)), progress)
    cell = decoder.get_incremental_state(progress, "progress").state.cell
    fed = torch.cat([decoder.embed_tokens(target[:, 1:2]), out.context, first], -1)
    hidden = decoder.lstm(fed, (first.transpose(0, 1).contiguous(), cell.transpose(0, 1).contiguous()))[0]
    torch.testing.assert_close(second, hidden)


@pytest.mark.parametrize("topk", [None, 2])
def test_words_of_an_alignment_are_linear_in_encoding_and_state(topk):
    """p(y) = sum_j p(j) softmax(W [h_j; s] + b), over all positions or the best, renormalised."""
    model, batch = make_latent(output_layer="linear", latent_topk=topk), sample()
    calls = watched(model)
    log_probs, extra = model(**batch["net_input"])
    state = torch.cat([query for query, _ in calls], 1)
    encodings = model.encoder(batch["net_input"]["src_tokens"])["encodings"]
    for row, step in ((0, 0), (1, 1), (2, 3)):
        prior = extra["attn"][0][row, step]
        places = prior.topk(topk).indices if topk else (prior > 0).nonzero().squeeze(1)
        both = torch.cat([encodings[row, places], state[row, step].expand(len(places), -1)], 1)
        words = model.decoder.fc_out(both).softmax(-1)
        expected = (prior[places] / prior[places].sum()) @ words
        torch.testing.assert_close(log_probs[row, step], expected.log())
    assert batch["target"][2, 3] != PAD


@pytest.mark.parametrize(
    "family", ["attn_lstm", "lstm_latent", "lstm_latent_first_order", "lstm_posterior", "lstm_agreement"]
)
def test_architectures_of_128_units_have_it(family):
    assert MODEL_DATACLASS_REGISTRY[family + "_small"]().output_layer == "linear"
    assert MODEL_DATACLASS_REGISTRY[family]().output_layer == "tanh"


def test_training_drops_context_and_state():
    model = make("linear/soft", dropout=0.5).train()
    logits, _ = model(pad_batch(LENGTHS), None, targets())
    logits.pow(2).mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    model.decoder.dropout_out_module.p = 1.0
    logits, _ = model(pad_batch(LENGTHS), None, targets())
    torch.testing.assert_close(logits, model.decoder.fc_out.bias.expand_as(logits))


SHARED = {"output_layer": "linear", "share_decoder_input_output_embed": True}


@pytest.mark.parametrize("arch", ["attn_lstm", "lstm_latent_small"])
@refuses(
    ({"output_layer": "relu"}, "--output-layer relu: must be one of tanh, linear"),
    (SHARED, r"--decoder-embed-dim \(12\) to match the 16 \+ 14 units of context and state \(--output-layer"),
    ({**SHARED, "decoder_attention": "False"}, r"-dim \(12\) to match the 14 units of the state \(--output"),
)
def test_what_does_not_go_together_is_one_line(options, arch):
    build(arch, **options)


def test_embeddings_as_wide_as_context_and_state_are_shared():
    words = dictionary()
    sizes = dict.fromkeys(("encoder_embed_dim", "decoder_embed_dim"), CONTEXT + STATE)
    model = build("attn_lstm", fake_task(words, words), output_layer="linear", share_all_embeddings=True, **sizes)
    logits, _ = model(pad_batch(LENGTHS), None, targets())
    assert logits.shape == (*targets().shape, len(words)) and not hasattr(model.decoder, "fc_out")


def test_teachers_have_the_same_output_layer(tmp_path):
    paths = {}
    for kind in ("tanh", "linear"):
        paths[kind] = save_checkpoint(tmp_path / f"{kind}.pt", build("lstm_soft", output_layer=kind))
        build("lstm_gaussian", output_layer=kind, election_teacher=paths[kind])
    differs = "in the teacher and .* in the model; the teacher must have .* the model's .* --output-layer"
    with pytest.raises(OptionError, match=differs):
        build("lstm_gaussian", election_teacher=paths["linear"])
    for feeding in ("output", "none"):
        with pytest.raises(OptionError, match=differs):
            build("lstm_gaussian", output_layer="linear", input_feeding=feeding, election_teacher=paths["tanh"])
