"""The posterior of alignments by exponentials of two parts, against the softmax of all pairs."""

import pytest
import torch

from fairseq_attn_plugin.ops.likelihoods import separable
from fairseq_attn_plugin.ops.likelihoods.separable import log_posterior_of, shared_exponentials

WORDS, POSITIONS, STEPS = 200, 4, 2


def parts(gap, dtype):
    """Logits of steps and of positions, which favour other words by ``gap``, a prior, and a word for each step."""
    draw = torch.Generator().manual_seed(1)
    steps, positions = (torch.randn(3, count, WORDS, generator=draw, dtype=dtype) for count in (STEPS, POSITIONS))
    steps[..., :10] += gap
    positions[..., 10:20] += gap
    log_prior = torch.randn(3, STEPS, POSITIONS, generator=draw, dtype=dtype).log_softmax(-1)
    return steps, positions, log_prior, torch.tensor([[3, 12], [50, 3], [12, 199]])


def results(steps, positions, log_prior, words, function, scale=1.0):
    """The posterior and its gradients by both parts."""
    steps, positions = steps.clone().requires_grad_(), positions.clone().requires_grad_()
    weights = function(steps, positions, log_prior, words)
    (weights * torch.arange(float(POSITIONS)) * scale).sum().backward()
    return weights.detach(), steps.grad / scale, positions.grad / scale


def of_pairs(steps, positions, log_prior, words):
    log_probs = (steps.unsqueeze(2) + positions.unsqueeze(1)).log_softmax(-1)
    index = words[..., None, None].expand(-1, -1, POSITIONS, 1)
    return (log_prior + log_probs.gather(-1, index).squeeze(-1)).softmax(-1)


def of_parts(steps, positions, log_prior, words):
    chosen = positions.gather(2, words.unsqueeze(1).expand(-1, POSITIONS, -1)).transpose(1, 2)
    return log_posterior_of(log_prior, steps, chosen, shared_exponentials(positions))[0].softmax(-1)


@pytest.mark.parametrize("gap", [0, 5, 12])
def test_it_is_the_softmax_of_all_pairs(gap):
    given = parts(gap, torch.float64)
    torch.testing.assert_close(results(*given, of_parts), results(*given, of_pairs))


@pytest.mark.parametrize("half", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("gap", [8, 12])
def test_autocast_leaves_the_sums_in_float32(gap, half):
    given = parts(gap, torch.float32)
    expected = results(*given, of_pairs)

    def under_autocast(*parts):
        with torch.autocast("cpu", dtype=half):
            return of_parts(*parts)

    found = results(*given, under_autocast, scale=1024.0)  # as a loss in float16 is scaled
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_lost_words_are_noticed():
    assert log_posterior_of(*_unsafe(gap=30))[1] > separable.SAFE_SUMS[0] > log_posterior_of(*_unsafe(gap=60))[1]


def _unsafe(gap):
    steps, positions, log_prior, _ = parts(gap, torch.float32)
    exponentials = shared_exponentials(positions)
    norm = (steps - steps.amax(-1, keepdim=True)).exp() @ exponentials.values.transpose(1, 2)
    assert bool(norm.min() > separable.SAFE_SUMS[0]) == (gap < 40)
    return log_prior, steps, torch.zeros_like(log_prior), exponentials
