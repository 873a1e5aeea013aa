"""Objectives that sum over all alignments exactly."""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from ...ops.likelihoods.mixture_nll import expected_nll, mixture_nll
from .batch import Batch, MovingAverage, Settings, Terms, correct_words, posterior_correct_words
from .objective import register_objective

__all__ = ["elbo_enum", "hard_enum", "marginal", "soft"]


@register_objective("soft", mean_context=True, validation="soft")
def soft(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-log p(y | c), ordinary attention."""
    out = batch.soft(settings.smoothing)
    return Terms(out.total, batch.mean_nll(out), prior_correct=correct_words(out))


@register_objective("marginal", validation="marginal")
def marginal(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-log sum_j p(j) p(y|j)."""
    log_prior = batch.latent.log_prior
    out = mixture_nll(batch.words(), log_prior, settings.smoothing, batch.mixtures())
    exact = -batch.sum((log_prior + out.log_likelihood).logsumexp(-1)).detach()
    return Terms(out.total, exact, None, exact, correct_words(out), posterior_correct_words(batch, out))


@register_objective("hard-enum", validation="hard")
def hard_enum(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-sum_j p(j) log p(y|j)."""
    return _expected(batch, settings, batch.latent.log_prior, None)


@register_objective("elbo-enum", posterior=True, validation="elbo", recompute=True)
def elbo_enum(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """The negative variational bound (ELBO), -sum_j q(j) log p(y|j) + KL(q || p), summed over all positions."""
    return _expected(batch, settings, batch.log_posterior, batch.kl())


def _expected(batch: Batch, settings: Settings, log_weights: Tensor, kl: Optional[Tensor]) -> Terms:
    weights = log_weights.exp()
    out = expected_nll(batch.words(), weights, settings.smoothing, batch.mixtures())
    reconstruction = -batch.sum((weights.detach() * out.log_likelihood).sum(-1))
    exact = -batch.sum((batch.latent.log_prior + out.log_likelihood).logsumexp(-1)).detach()
    # with q and --kl-weight 1 the negative variational bound (ELBO)
    loss = out.total if kl is None else out.total + settings.kl_weight * kl
    return Terms(
        loss,
        reconstruction,
        None if kl is None else kl.detach(),
        exact,
        correct_words(out),
        posterior_correct_words(batch, out),
    )
