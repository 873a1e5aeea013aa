"""Beam search over models that copy source words."""

import pytest
import torch
from models_for_tests import build
from test_search import assert_forced_scores, assert_same, both, generator, sharpened

from fairseq_attn_plugin.errors import OptionError


def make(**options):
    model = build("attn_lstm", copy_attention=True, **options).eval()
    sharpened(model)
    model.decoder.copying.gate.weight.data.mul_(0.2)
    return model


@pytest.mark.parametrize(
    "options",
    [{}, {"attention": "mqt"}, {"input_feeding": "context"}, {"output_layer": "linear"}, {"rnn": "gru"}],
)
@pytest.mark.parametrize("fast", [False, True])
def test_search_is_fairseqs_and_its_scores_are_forced_scores(options, fast):
    model = make(**options)
    if fast:
        model._is_generation_fast = True  # as fairseq prepares a model for translation
    found, expected = both([model], beam=4, max_len_b=6)
    used = generator("plugin", [model]).steppers[0]
    assert (used.weights is not None) == fast
    assert_same(found, expected)
    assert_forced_scores(model, found, rtol=1e-3, atol=1e-3)


def test_a_model_that_only_copies_gives_the_source():
    """Attention to position t at step t, and a gate that is shut."""
    model = make(attention="local-m", local_window=1)
    model.decoder.copying.gate.bias.data.fill_(-1e4)
    model.decoder.attention._weigh = lambda scores, query, memory, positions: torch.nn.functional.one_hot(
        positions.clamp(max=scores.size(-1) - 1), scores.size(-1)
    ).type_as(scores)
    for tokens in ([9, 12, 8, 2], [5, 2]):
        source = torch.tensor([tokens])
        net_input = {"src_tokens": source, "src_lengths": torch.tensor([len(tokens)])}
        best = generator("plugin", [model], beam=2).generate([model], {"net_input": net_input})[0][0]
        assert best["tokens"].tolist() == tokens and abs(float(best["score"])) < 1e-4


def test_a_shortlist_is_refused(tmp_path):
    with pytest.raises(OptionError, match="--shortlist .*: a model that copies"):
        generator("plugin", [make()], shortlist=str(tmp_path / "none"))
