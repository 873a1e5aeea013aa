"""Translation by models of posterior attention: the packed stepper against the plain one."""

import pytest
import torch
from test_latent_words import assert_same as assert_same_steps
from test_packed import batch, walk
from test_packed_search import final
from test_posterior_model import CASES, make
from test_search import assert_same as assert_same_hypotheses
from test_search import both, generator, sample, sharpened
from test_shortlist import write

from fairseq_attn_plugin.decoding import latent_words
from fairseq_attn_plugin.decoding.packed import PackedStepper, is_packable
from fairseq_attn_plugin.decoding.stepper import ModelStepper

LINEAR = [options for options in CASES if options.get("output_layer") == "linear"]


@pytest.mark.parametrize("lengths", [[3, 6, 1, 4], [5, 5], [3, 0, 2, 1]], ids=str)
@pytest.mark.parametrize("options", [*LINEAR, {"output_layer": "linear", "latent_topk": 2}], ids=str)
def test_the_packed_engine(options, lengths):
    assert_same_steps(make(torch.float32, **options), batch(lengths))


def test_the_packed_engine_where_parts_share_no_words(monkeypatch):
    model, found, pairs = make(torch.float64, output_layer="linear"), [], latent_words._of_pairs
    monkeypatch.setattr(latent_words, "_of_pairs", lambda *parts: found.append(parts) or pairs(*parts))
    weight, hidden = model.decoder.fc_out.weight.data, model.decoder.hidden_size
    weight[:4, :-hidden] *= 3000
    weight[4:, -hidden:] *= 3000
    for one, other in zip(*(walk(stepper(model), batch()) for stepper in (ModelStepper, PackedStepper))):
        torch.testing.assert_close(other.logits.exp(), one.logits.exp(), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(other.weights, one.weights, rtol=1e-5, atol=1e-5)
    assert found


@pytest.mark.parametrize("options", LINEAR, ids=str)
def test_same_hypotheses(options, tmp_path):
    models = final(sharpened(make(torch.float64, **options)))
    assert isinstance(generator("plugin", models).steppers[0], PackedStepper)
    assert assert_same_hypotheses(*both(models, beam=3))
    short = {"shortlist": write(tmp_path / "lexicon.tsv"), "shortlist_frequent": 99}
    plain, short = (generator("plugin", models, **given).generate(models, sample()) for given in ({}, short))
    assert_same_hypotheses(short, plain)


def test_with_a_tanh_the_packed_engine_leaves_it_to_its_own_steps():
    assert not is_packable(make(torch.float32))
    assert not is_packable(make(torch.float32, output_layer="linear", latent_prediction="soft"))
