"""Models with a latent alignment: packed products against their own, and searches."""

import pytest
import torch
from latent_models import make
from model_systems import LATENT
from model_systems import make as make_system
from test_fixed_search import final, words_of
from test_search import assert_same as assert_same_hypotheses
from test_search import both, generator, sample, sharpened
from test_shortlist import write
from test_stepper import batch, fixed, tracing, walk

from fairseq_attn_plugin.decoding import stepper as steppers
from fairseq_attn_plugin.decoding.shortlist import Shortlist
from fairseq_attn_plugin.decoding.stepper import ModelStepper
from fairseq_attn_plugin.ops.likelihoods import alignment_blocks

__all__ = ["tracing"]  # steps with and without a trace
PREDICTIONS = [
    {},
    {"latent_topk": 2},
    {"latent_topk": 5},
    {"latent_prediction": "soft"},
    {"input_feeding": "none"},
    {"latent_topk": 2, "latent_topk_feed": True},
    {"latent_topk": 5, "latent_topk_feed": True},
    {"output_layer": "linear"},
    {"output_layer": "linear", "latent_topk": 2},
    {"output_layer": "linear", "latent_prediction": "soft"},
    {"latent_topk": 2, "decoder_embed_dim": 9, "decoder_out_embed_dim": 9, "share_decoder_input_output_embed": True},
]


def assert_same(model, net_input, temperature=1.0, tolerance=1e-5):
    steppers = ModelStepper(model, temperature), fixed(model, temperature=temperature)
    for one, other in zip(*(walk(stepper, net_input) for stepper in steppers)):
        if other.normalized:
            torch.testing.assert_close(other.logits.exp().sum(-1), torch.ones(len(other.logits)))
        logits = (x.logits.log_softmax(-1) for x in (other, one))
        torch.testing.assert_close(*logits, rtol=tolerance, atol=tolerance)
        torch.testing.assert_close(other.weights, one.weights, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("lengths", [[3, 6, 1, 4], [5, 5], [3, 0, 2, 1]], ids=str)
@pytest.mark.parametrize("options", PREDICTIONS, ids=str)
def test_every_prediction(options, lengths):
    assert_same(make(torch.float32, **options), batch(lengths))


@pytest.mark.parametrize("options", PREDICTIONS[:4], ids=str)
def test_temperature(options):
    assert_same(make(torch.float32, **options), batch(), temperature=1.7)


def test_the_context_of_the_best_is_fed():
    options = {"latent_topk": 2, "latent_topk_feed": True}
    model, usual = make(**options), make(latent_topk=2)
    assert_same(model, batch(), tolerance=1e-6)
    fed, other = (walk(fixed(one), batch())[-1].weights for one in (model, usual))
    assert (fed - other).abs().max() > 1e-5


def test_blocks(monkeypatch):
    monkeypatch.setitem(alignment_blocks.BLOCK_BYTES, "cpu", 1)
    assert_same(make(torch.float32), batch())


@pytest.mark.parametrize("shift", [-200.0, 200.0])
def test_sums_of_exponentials_out_of_range(shift):
    model = make(torch.float32)
    model.decoder.fc_out.bias.data += shift
    assert_same(model, batch(), tolerance=1e-4)


def test_parts_that_share_no_words():
    model = make(torch.float32, output_layer="linear")
    weight, hidden = model.decoder.fc_out.weight.data, model.decoder.hidden_size
    weight[:4, :-hidden] *= 3000
    weight[4:, -hidden:] *= 3000
    assert_same(model, batch(), tolerance=1e-3)


@pytest.mark.parametrize("attention", LATENT)
def test_same_hypotheses(attention, tracing):
    dtype = torch.float32 if steppers.UNTRACED == 0 else torch.float64
    models = final(sharpened(make_system(attention, "context", dtype)))
    assert generator("plugin", models).steppers[0].weights is not None
    assert assert_same_hypotheses(*both(models, beam=3))


@pytest.mark.parametrize("output_layer", ["tanh", "linear"])
def test_a_shortlist_of_all_words_changes_nothing(output_layer, tmp_path):
    models = final(make(torch.float32, latent_topk=2, output_layer=output_layer))
    options = {"shortlist": write(tmp_path / "lexicon.tsv"), "shortlist_frequent": 99}
    plain, short = (generator("plugin", models, **given).generate(models, sample()) for given in ({}, options))
    assert words_of(short) == words_of(plain)
    assert_same_hypotheses(short, plain)


def assert_as_if_other_words_were_impossible(model, tmp_path):
    """A shortlist of some words against a bias that leaves the others no probability."""
    lexicon = write(tmp_path / "lexicon.tsv")
    shortlist = Shortlist(str(lexicon), 1, 8, model.encoder.dictionary, model.decoder.dictionary)
    words = shortlist.words(batch()["src_tokens"])
    assert 12 <= len(words) < len(model.decoder.dictionary)  # those of walk are among them
    found = walk(fixed(model, shortlist=shortlist), batch())
    others = torch.ones(len(model.decoder.dictionary), dtype=torch.bool).index_fill_(0, words, False)
    model.decoder.fc_out.bias.data[others] = -1e4
    for one, other in zip(walk(ModelStepper(model), batch()), found):
        torch.testing.assert_close(other.logits, one.logits[:, words], rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(other.weights, one.weights, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("output_layer", ["tanh", "linear"])
def test_a_shortlist_of_some_words(output_layer, tmp_path):
    assert_as_if_other_words_were_impossible(make(torch.float32, output_layer=output_layer), tmp_path)


@pytest.mark.usefixtures("bfloat16")
@pytest.mark.parametrize("precision", ["bfloat16", "int8"])
def test_other_precisions_are_close(precision):
    model = make(torch.float32)
    exact, rounded = walk(ModelStepper(model), batch()), walk(fixed(model, precision), batch())
    for one, other in zip(exact, rounded):
        assert 0 < (other.logits.exp() - one.logits.exp()).abs().max() < 0.1
