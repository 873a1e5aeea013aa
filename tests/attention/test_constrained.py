"""Constrained sparsemax: fertilities that hold over a whole translation."""

import pytest
import torch

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.errors import OptionError

import oracles

NAME = "constrained-sparsemax"


@pytest.mark.parametrize(("fertility", "c"), [(0.6, 0.5), (0.3, 2.0), (0.6, 0.0), (3.0, 0.2)])
def test_what_is_left_of_a_word_bounds_it_and_draws_attention(fertility, c):
    """Scores alpha_t + c u_t and weights of every step, where alpha is given; the last word has no bound and no c u."""
    alpha = torch.tensor([0.1, 0.9, -0.4, 0.2], dtype=torch.float64)
    module = build_attention(NAME, query_dim=1, memory_dim=1, score="dot", fertility=fertility, exhaustion=c).double()
    memory = module.precompute(alpha.view(1, 4, 1))
    state, u = module.initial_state(memory), [fertility] * 3
    for _ in range(3):
        drawn = torch.stack([a + c * left for a, left in zip(alpha, [*u, 0.0])])
        expected = oracles.constrained_sparsemax(drawn, torch.tensor([*u, 1.0], dtype=torch.float64))
        out = module.step(alpha.new_ones(1, 1, 1), memory, state)
        torch.testing.assert_close(out.scores.flatten(), drawn)
        torch.testing.assert_close(out.weights.flatten(), expected)
        state, u = out.state, [left - float(weight) for left, weight in zip(u, expected)]


def test_a_table_of_an_older_checkpoint():
    module = build_attention(NAME, query_dim=4, memory_dim=4, fertility=2.5)
    module.load_state_dict({**module.state_dict(), "table": torch.tensor([2.5, 2.0, 1.0])})
    memory = module.precompute(torch.zeros(1, 3, 4), source_tokens=torch.tensor([[1, 0, 2]]))
    assert memory.fertility.tolist() == [[2.0, 2.5, 1.0]] and memory.sink.tolist() == [[False, False, True]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fertility": 0.0}, "--constrained-fertility 0.0: must be above 0"),
        ({"exhaustion": -1.0}, "--constrained-exhaustion -1.0: must be 0 or more"),
        ({"normalizer": "sparsemax"}, "constrained-sparsemax attention defines how scores become weights"),
    ],
)
def test_wrong_options(options, message):
    with pytest.raises(OptionError, match=message):
        build_attention(NAME, query_dim=4, memory_dim=4, **options)
