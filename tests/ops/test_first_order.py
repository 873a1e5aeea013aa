"""The forward algorithm of first-order alignments against the enumeration of all paths."""

import itertools

import pytest
import torch

from fairseq_attn_plugin.ops.likelihoods import first_order

POSITIONS, STEPS, WINDOW = 4, 3, 2


def by_paths(table, content, emissions, monotonic):
    """log p(y_1..t) for every t, and p(z_t = j | y), of one sentence, by all N^T paths."""
    window = len(table) // 2

    def transition(step, past):
        logits = []
        for j in range(content.size(-1)):
            logit = content[step, j] + table[max(-window, min(window, j - past)) + window]
            logits.append(torch.full_like(logit, -torch.inf) if monotonic and j < past else logit)
        return torch.stack(logits).softmax(0)

    totals, shares = [], torch.zeros_like(content)
    for length in range(1, len(content) + 1):
        total = 0.0
        for path in itertools.product(range(content.size(-1)), repeat=length):
            p = torch.ones((), dtype=content.dtype)
            for step, (past, j) in enumerate(zip((-1, *path), path)):
                p = p * transition(step, past)[j] * emissions[step, j].exp()
            total = total + p
            if length == len(content):
                for step, j in enumerate(path):
                    shares[step, j] += p.detach()
        totals.append(torch.log(total))
    return torch.stack(totals), shares / shares.sum(-1, keepdim=True)


def numbers(seed=0):
    draw = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64).requires_grad_()

    return normal(2 * WINDOW + 1), normal(STEPS, POSITIONS), normal(STEPS, POSITIONS)


@pytest.mark.parametrize("monotonic", [False, True])
@pytest.mark.parametrize("padding", ["none", "left", "right"])
def test_equals_the_sum_over_all_paths(monotonic, padding):
    """Likelihood of every beginning, gradients of all potentials, and posteriors."""
    table, content, emissions = numbers()
    expected, shares = by_paths(table, content, emissions, monotonic)
    sides = {"none": (0, 0), "left": (2, 0), "right": (0, 2)}[padding]
    wide = torch.nn.functional.pad(content, sides, value=first_order.LOG_ZERO).unsqueeze(0)
    seen = torch.nn.functional.pad(emissions, sides, value=3.0).unsqueeze(0)
    mask = wide[:, 0].eq(first_order.LOG_ZERO)
    chain = first_order.jump_chain(table, mask, monotonic)
    predictions, likelihoods = first_order.forward_algorithm(chain, wide, seen)
    torch.testing.assert_close(likelihoods[0].cumsum(0), expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(predictions.exp().sum(-1), torch.ones(1, STEPS, dtype=torch.float64))
    leaves = (table, content, emissions)
    found = torch.autograd.grad(likelihoods.sum(), leaves)
    torch.testing.assert_close(found, torch.autograd.grad(expected[-1], leaves), rtol=1e-10, atol=1e-12)
    weights = first_order.posteriors(chain, wide, seen)[0]
    torch.testing.assert_close(weights[:, ~mask[0]], shares, rtol=1e-10, atol=1e-12)
    assert (weights[:, mask[0]] == 0).all()


def test_step_by_step_and_finite_in_float32():
    """With an alignment that has nowhere to go but the last word, and one that the words contradict."""
    draw = torch.Generator().manual_seed(3)
    content = (30 * torch.randn(1, 9, 6, generator=draw)).log_softmax(-1)
    emissions = 40 * torch.randn(1, 9, 6, generator=draw) - 60
    chain = first_order.jump_chain(torch.linspace(-20, 20, 5), torch.zeros(1, 6, dtype=torch.bool), True)
    predictions, likelihoods = first_order.forward_algorithm(chain, content, emissions)
    past = None
    for step in range(9):
        prediction = first_order.predicted(chain, content[:, step], past)
        past, likelihood = first_order.filtered(prediction, emissions[:, step])
        torch.testing.assert_close(prediction, predictions[:, step])
        torch.testing.assert_close(likelihood, likelihoods[:, step])
    assert likelihoods.isfinite().all() and first_order.posteriors(chain, content, emissions).isfinite().all()
    exact = first_order.forward_algorithm(
        first_order.JumpChain(*(part.double() for part in chain)), content.double(), emissions.double()
    )[1]
    torch.testing.assert_close(likelihoods.double(), exact, rtol=1e-5, atol=1e-4)
