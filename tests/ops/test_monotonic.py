"""Where a monotonic reader stops: against its definition, at the edges of probabilities, and over long sources."""

import pytest
import torch

from fairseq_attn_plugin.ops.monotonic import chunk_weights, monotonic_step

import oracles


def drawn(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 2, 3, 8, 11])
def test_equals_the_sum_over_all_ways(size):
    stop, last = drawn(4, size), drawn(4, size, seed=1).softmax(-1)
    stop[0, size // 2], stop[1, size // 2] = 0.0, 1.0
    expected = torch.stack([oracles.expected_stops(*row) for row in zip(stop, last)])
    torch.testing.assert_close(monotonic_step(stop, 1 - stop, last), expected, rtol=1e-12, atol=1e-14)


def test_a_thousand_words_and_saturated_probabilities_stay_exact():
    """The quotient of a cumulative sum and a cumulative product has lost all digits here."""
    scores = torch.full((1, 1000), -20.0)
    scores[:, -1] = 90.0
    last = torch.zeros(1, 1000)
    last[:, 3] = 1.0
    scores.requires_grad_()
    found = monotonic_step(torch.sigmoid(scores), torch.sigmoid(-scores), last)
    assert found[0, :3].eq(0).all() and abs(found.sum().item() - 1) < 1e-5 and found[0, -1] > 0.99
    found[0, -1].backward()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("size", [1, 2, 4, 10**14])
def test_chunks_equal_the_definition(size):
    stops, energies = drawn(4, 9), 3 * drawn(4, 9, seed=1)
    found = chunk_weights(stops, energies, size)
    expected = torch.stack([oracles.chunk(*row, size) for row in zip(stops, energies)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    assert torch.autograd.gradcheck(
        lambda a, u: chunk_weights(a, u, size), (stops.requires_grad_(), energies.requires_grad_())
    )
    if size == 1:
        assert torch.equal(found, stops)
