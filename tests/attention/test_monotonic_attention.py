"""Monotonic attention and MoChA: one word in evaluation, never backwards, and noise in training only."""

import pytest
import torch
from attention_cases import make

from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.testing.subject import attend, batch_of, draw_queries


@pytest.mark.parametrize("name", ["monotonic", "mocha"])
@pytest.mark.parametrize(
    ("scores", "offset", "place"),
    [
        ([-0.3, 0.2, 0.7, 0.0], 0.0, 1),  # p = 0.43, 0.55, ...
        ([0.0, -0.2, 0.4, 0.0], 0.0, 2),  # at p = 1/2 it goes on
        ([-0.9, -0.6, -0.3, 0.0], 0.5, 2),
    ],
)
def test_in_evaluation_it_stops_at_the_first_word_above_one_half(name, scores, offset, place):
    options = {"chunk": 1} if name == "mocha" else {}
    module = build_attention(name, query_dim=1, memory_dim=1, score="dot", offset=offset, **options).eval()
    memory = module.precompute(torch.tensor(scores).view(1, 4, 1))
    weights = module.step(torch.ones(1, 1, 1), memory, module.initial_state(memory)).weights
    assert weights.flatten().tolist() == [float(j == place) for j in range(4)]


def test_noise_is_of_training_only():
    encodings, pad_mask, _ = batch_of()
    module = make("monotonic", {})
    module.noise = module.config.noise
    torch.manual_seed(1)
    one, two = (attend(module, draw_queries(), encodings, pad_mask)[1] for _ in range(2))
    assert not torch.equal(one, two)
    module.eval()
    one, two = (attend(module, draw_queries(), encodings, pad_mask)[1] for _ in range(2))
    assert torch.equal(one, two)
