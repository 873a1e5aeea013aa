"""``--wu-penalty`` and ``--eos-norm``: length penalty and end-of-sentence normalisation as OpenNMT has them."""

import math

import pytest
import torch
from model_systems import make
from test_fixed_search import final
from test_search import EOS, LENGTHS, assert_same, generator, sample, sharpened

from fairseq_attn_plugin.decoding.options import DecodingOptions
from fairseq_attn_plugin.decoding.stepper import Ensemble
from fairseq_attn_plugin.errors import OptionError


def hypotheses(batch=None, **options):
    models = final(sharpened(make("soft", dtype=torch.float32)))
    return generator("plugin", models, **{"beam": 4, **options}).generate(models, batch or sample())


def alone():
    """Each sentence as a batch, and its number of words."""
    whole = sample()["net_input"]
    for row, length in enumerate(LENGTHS):
        tokens = whole["src_tokens"][row : row + 1, -length:]
        yield {"net_input": {"src_tokens": tokens, "src_lengths": torch.tensor([length])}}, length - 1


@pytest.mark.parametrize("alpha", [0.7, 1.0])
def test_ranks_by_the_penalty_of_wu(alpha):
    plain, ranked = hypotheses(), hypotheses(wu_penalty=alpha)
    for before, after in zip(plain, ranked):
        assert {tuple(one["tokens"].tolist()) for one in before} == {tuple(one["tokens"].tolist()) for one in after}
        for one in after:
            size = len(one["tokens"]) + 1  # the end is one of them; the start
            expected = float(one["positional_scores"].sum()) / ((5 + size) / 6) ** alpha
            assert float(one["score"]) == pytest.approx(expected, rel=1e-5)
        scores = [float(one["score"]) for one in after]
        assert scores == sorted(scores, reverse=True)
    unnormalized = hypotheses(wu_penalty=alpha, unnormalized=True, lenpen=3.0)
    assert_same(unnormalized, ranked)


@pytest.mark.parametrize("beam", [1, 4])
def test_the_end_costs_what_the_formula_says(beam, monkeypatch):
    """A model whose log p of the end is lower by gamma |X| / |Y| gives the same hypotheses, sentence by sentence."""
    gamma, step = 3.0, Ensemble.step
    together = hypotheses(eos_norm=gamma, beam=beam)
    lengths = {len(one["tokens"]) for row in hypotheses(beam=beam) for one in row}
    assert {len(one["tokens"]) for row in together for one in row} != lengths, "it changes something"
    for row, (batch, words) in enumerate(alone()):

        def lower(self, tokens, number, words=words):
            log_probs, weights = step(self, tokens, number)
            written = number + 1  # this word, too
            log_probs[:, EOS] -= gamma * words / (1 + written)
            return log_probs, weights

        own = hypotheses(batch, eos_norm=gamma, beam=beam)
        with monkeypatch.context() as patch:
            patch.setattr(Ensemble, "step", lower)
            assert_same(hypotheses(batch, beam=beam), own)
        for one, other in zip(own[0], together[row], strict=True):
            assert one["tokens"].tolist() == other["tokens"].tolist()
            torch.testing.assert_close(one["positional_scores"], other["positional_scores"], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["wu_penalty", "eos_norm"])
def test_wrong_values(name):
    option = f"--{name.replace('_', '-')}"
    for value in (-1.0, math.inf):
        with pytest.raises(OptionError, match=f"^{option} {value}: must be 0 or more"):
            DecodingOptions(**{name: value})
    models = [make("soft")]
    with pytest.raises(OptionError, match=f"^{option} 1.0: --decoding-engine stock"):
        generator("stock", models, **{name: 1.0})
