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


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        (
            "soft",
            {"score": "additive", "score_gain": True},
            "--attention-score-gain: is for the score general, and this attention has --attention-score additive",
        ),
        ("aqt", {"score_gain": True}, "this attention has --attention-score additive"),
        ("gaussian", {"score_gain": True}, "--attention-score-gain: gaussian attention has no scores; leave it out"),
    ],
)
def test_options_of_other_scores_are_refused(name, options, message):
    with pytest.raises(OptionError, match=message):
        build_attention(name, query_dim=6, memory_dim=6, **options)
