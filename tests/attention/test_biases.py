"""Biases of attention scores: the neighbours of a position, and the penalty of fertilities."""

import math

import pytest
import torch

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.attention.biases.neighbours import neighbours


@pytest.mark.parametrize("window", [0, 1, 2, 5])
def test_neighbours_are_on_both_sides_in_order(window):
    x = [3.0, -1.0, 2.0, 7.0]
    expected = [[x[j + d] if 0 <= j + d < 4 else 0.0 for d in range(-window, window + 1)] for j in range(4)]
    assert neighbours(torch.tensor([[x]]), window).tolist() == [[expected]]


def fertility_cost(total, mean, variance):
    """-log N(total; mean, variance)."""
    return -torch.distributions.Normal(mean, variance**0.5).log_prob(total)


@pytest.mark.parametrize(("steps", "words"), [((3, 3), (4, 4)), ((3, 1), (4, 4)), ((2, 3), (4, 2)), ((1, 2), (1, 3))])
def test_the_fertility_penalty_is_of_real_steps_and_words(steps, words):
    """With w = 0 all words have m = softplus(b_m) and v = softplus(b_v) + 0.05; weights on padding count nothing."""
    torch.manual_seed(1)
    module = build_attention("soft", query_dim=3, memory_dim=3, bias="fertility", fertility_weight=0.3).double()
    predicted = module.biases.fertility.predicted
    predicted.weight.data.zero_()
    predicted.bias.data.copy_(torch.tensor([0.4, -1.0]))
    mean, variance = (math.log1p(math.exp(b)) for b in predicted.bias.tolist())
    pad_mask = torch.arange(4) >= torch.tensor(words).unsqueeze(1)
    step_mask = torch.arange(3) >= torch.tensor(steps).unsqueeze(1)
    weights = torch.rand(2, 3, 4, dtype=torch.float64)
    memory = module.precompute(torch.randn(2, 4, 3, dtype=torch.float64), pad_mask)
    (penalty,) = module.penalties(memory, weights, step_mask).values()
    expected = sum(
        fertility_cost(sum(weights[row, t, j] for t in range(steps[row])), mean, variance + 0.05)
        for row in range(2)
        for j in range(words[row])
    )
    torch.testing.assert_close(penalty.value, expected)
    assert penalty.weight == 0.3
