"""Objectives over some positions: the support of a sparse distribution, and the K most probable ones."""

import pytest
import torch
from test_objectives import NAMES, gradients, leaves, make, run, words

from fairseq_attn_plugin.criterions.objectives import OBJECTIVES, MovingAverage, Settings
from fairseq_attn_plugin.criterions.objectives.support import TopKConfig
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.ops.likelihoods import mixture_nll

SOURCES, TARGETS = (7, 3, 5), (3, 2, 3)


def supported(name, p, q, f):
    """The formulas of sparse marginalisation for one word, over the positions with a probability above zero."""
    if name == "sparse-marginal":
        inside = p > 0
        return -torch.log((p[inside] * f[inside].exp()).sum())
    inside = q > 1e-25  # of the logarithm, which is finite
    q = q[inside]
    return -(q * f[inside]).sum() + (q * torch.log(q / p[inside])).sum()


@pytest.mark.parametrize("normalizer", ["sparsemax", "entmax15"])
@pytest.mark.parametrize("name", ["sparse-marginal", "sparse-elbo"])
def test_sums_over_the_support_equal_the_formula(name, normalizer):
    parts = leaves(SOURCES, scale=2.0)
    sparse = make(parts, SOURCES, TARGETS, normalizer=normalizer)
    batch = sparse
    if name == "sparse-elbo":  # KL(q || p) needs a prior above zero on the support of q
        dense = make(parts, SOURCES, TARGETS).latent
        batch = batch._replace(latent=batch.latent._replace(prior=dense.prior, log_prior=dense.log_prior))
    chosen = sparse.latent.log_prior if name == "sparse-marginal" else sparse.latent.log_posterior
    sizes = (chosen > -60).sum(-1)[batch.real]
    assert len(sizes.unique()) > 1 and sizes.max() < 7  # several groups, and zeros
    expected = sum(supported(name, p, q, f) for p, q, f, _ in words(batch))
    terms = run(name, batch)
    torch.testing.assert_close(terms.loss, expected, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(gradients(terms.loss, parts), gradients(expected, parts), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("name", "dense"), [("sparse-marginal", "marginal"), ("sparse-elbo", "elbo-enum")])
def test_enumeration_of_all_positions_gives_the_same(name, dense):
    """With label smoothing too, and where no position has the probability zero."""
    for normalizer in ("softmax", "sparsemax"):
        parts = leaves(SOURCES, scale=2.0)
        batch = make(parts, SOURCES, TARGETS, normalizer=normalizer)
        one, other = (run(key, batch, smoothing=0.2) for key in (name, dense))
        torch.testing.assert_close(one.loss, other.loss)
        torch.testing.assert_close(one.reconstruction, other.reconstruction)
        hits = "prior_correct" if name == "sparse-marginal" else "posterior_correct"
        assert int(getattr(one, hits)) == int(getattr(other, hits))
        torch.testing.assert_close(gradients(one.loss, parts), gradients(other.loss, parts), rtol=1e-8, atol=1e-10)


def test_no_more_vocabulary_projections_than_the_support_has_positions(monkeypatch):
    """A support of 1, 2, 3 or 4 positions is computed as it is, a wider one with at most a third more."""
    rows = []
    plain = mixture_nll.NLLSums.add

    def add(self, block):
        rows.append(self.log_likelihood[block.where].numel())
        plain(self, block)

    monkeypatch.setattr(mixture_nll.NLLSums, "add", add)
    batch = make(leaves(SOURCES, scale=2.0), SOURCES, TARGETS, normalizer="sparsemax")
    run("sparse-marginal", batch)
    weights = batch.latent.prior[batch.real]
    support = int((weights > 1e-25).sum())
    assert support <= sum(rows) <= 4 / 3 * support < weights.numel()


@pytest.mark.parametrize("renormalize", [False, True])
def test_marginal_of_the_most_probable_positions(renormalize):
    parts = leaves(SOURCES)
    batch = make(parts, SOURCES, TARGETS)

    def word(p, f):
        best = p.argsort(descending=True)[:2]
        p = p[best] / p[best].sum() if renormalize else p[best]
        return -torch.log((p * f[best].exp()).sum())

    expected = sum(word(p, f) for p, _, f, _ in words(batch))
    terms = OBJECTIVES["topk-marginal"](batch, Settings(own=TopKConfig(2, renormalize)), MovingAverage())
    torch.testing.assert_close(terms.loss, expected)
    torch.testing.assert_close(terms.reconstruction, expected.detach())
    torch.testing.assert_close(gradients(terms.loss, parts), gradients(expected, parts), rtol=1e-9, atol=1e-11)


def test_a_number_of_positions_below_one():
    with pytest.raises(OptionError, match="--topk-positions 0: must be at least 1"):
        TopKConfig(positions=0)


def test_float32_and_one_position():
    parts = {name: value.detach().float().requires_grad_() for name, value in leaves((1, 1), seed=2).items()}
    batch = make(parts, (1, 1), normalizer="sparsemax")
    for name in ("sparse-marginal", "topk-marginal", "marginal"):
        assert all(grad.isfinite().all() for grad in gradients(run(name, batch).loss, parts, NAMES))
    torch.testing.assert_close(run("sparse-marginal", batch).loss, run("marginal", batch).loss)
