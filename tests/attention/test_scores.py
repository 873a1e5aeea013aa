"""Options of scores: where they start, and what refuses them."""

import pytest
import torch
from attention_cases import attend, batch_of, draw_queries

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError


@pytest.mark.parametrize("name", ["soft", "mqt", "structured"])
def test_a_gain_starts_at_one_and_multiplies_the_score(name):
    batch, query = batch_of(), draw_queries()
    weights = []
    for gain in (False, True):
        torch.manual_seed(1)
        module = build_attention(name, query_dim=query.size(-1), memory_dim=batch.encodings.size(-1), score_gain=gain)
        weights.append(attend(module.double(), query, batch.encodings, batch.pad_mask)[1])
    assert torch.equal(*weights), "other parameters are drawn as without it"
    module.score.gain.data.fill_(3)
    tripled = attend(module, query, batch.encodings, batch.pad_mask)[1]
    module.score.gain.data.fill_(1)
    if name != "mqt":  # there the diagonal alone is multiplied
        module.score.projection.weight.data *= 3
        torch.testing.assert_close(attend(module, query, batch.encodings, batch.pad_mask)[1], tripled)
    assert not torch.allclose(tripled, weights[0])


def test_a_chain_that_starts_from_zeros_has_no_coupling():
    batch, query = batch_of(), draw_queries()
    sizes = {"query_dim": query.size(-1), "memory_dim": batch.encodings.size(-1), "scale": 1.0}
    weights = {}
    for zero in (True, False):
        torch.manual_seed(1)
        module = build_attention("structured", zero_init=zero, **sizes).double()
        assert bool(module.transitions.eq(0).all()) == zero and module.transitions.requires_grad
        weights[zero] = attend(module, query, batch.encodings, batch.pad_mask)
    odds = torch.sigmoid(module.score(query, module.score.precompute(batch.encodings)))
    odds = odds.masked_fill(batch.pad_mask.unsqueeze(1), 0)
    torch.testing.assert_close(weights[True][1], odds / odds.sum(-1, keepdim=True).clamp(min=1e-30))
    assert not torch.allclose(weights[True][1], weights[False][1])


def test_an_additive_score_has_a_bias_or_none():
    shapes = []
    for no_bias in (False, True):
        module = build_attention("soft", query_dim=6, memory_dim=4, score="additive", score_no_bias=no_bias)
        shapes.append({name: tuple(value.shape) for name, value in module.named_parameters()})
    assert shapes[0] == {**shapes[1], "score.memory_projection.bias": (6,)} and len(shapes[1]) == 3


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "soft",
            {"score": "additive", "score_gain": True},
            "--attention-score-gain: is for the score general, and this attention has --attention-score additive",
        ),
        (
            "soft",
            {"score_no_bias": True},
            "--attention-score-no-bias: is for the score additive, and this attention has --attention-score general",
        ),
        ("gaussian", {"score_no_bias": True}, "--attention-score-no-bias: gaussian attention has no scores"),
        ("aqt", {"score_gain": True}, "this attention has --attention-score additive"),
        ("gaussian", {"score_gain": True}, "--attention-score-gain: gaussian attention has no scores; leave it out"),
    ],
)
def test_options_of_other_scores_are_refused(name, options, message):
    with pytest.raises(OptionError, match=message):
        build_attention(name, query_dim=6, memory_dim=6, **options)
