"""Translation by models of posterior attention: packed products against their own."""

import pytest
import torch
from test_fixed_search import final
from test_latent_search import assert_as_if_other_words_were_impossible
from test_latent_search import assert_same as assert_same_steps
from test_posterior_model import CASES, make
from test_search import assert_same as assert_same_hypotheses
from test_search import both, generator, sample, sharpened
from test_shortlist import write
from test_stepper import batch


@pytest.mark.parametrize("lengths", [[3, 6, 1, 4], [5, 5], [3, 0, 2, 1]], ids=str)
@pytest.mark.parametrize("options", [*CASES, {"output_layer": "linear", "latent_topk": 2}], ids=str)
def test_packed_products(options, lengths):
    assert_same_steps(make(torch.float32, **options), batch(lengths))


@pytest.mark.parametrize("options", CASES, ids=str)
def test_same_hypotheses(options, tmp_path):
    models = final(sharpened(make(torch.float64, **options)))
    assert assert_same_hypotheses(*both(models, beam=3))
    short = {"shortlist": write(tmp_path / "lexicon.tsv"), "shortlist_frequent": 99}
    plain, short = (generator("plugin", models, **given).generate(models, sample()) for given in ({}, short))
    assert_same_hypotheses(short, plain)


@pytest.mark.parametrize("output_layer", ["tanh", "linear"])
def test_a_shortlist_of_some_words(output_layer, tmp_path):
    assert_as_if_other_words_were_impossible(make(torch.float32, output_layer=output_layer), tmp_path)
