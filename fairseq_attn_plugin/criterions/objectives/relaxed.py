"""Objectives with relaxed alignments: samples are weights over all positions, -log p(y | sum_j z_j h_j)."""

from __future__ import annotations

import math
from typing import Callable, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...attention.normalizers import LOG_ZERO
from .batch import Batch, MovingAverage, Settings, Terms, correct_words
from .divergences import dirichlet_kl
from .objective import register_objective

__all__ = ["concentrations", "dirichlet", "elbo_gumbel"]


@register_objective("elbo-gumbel", posterior=True, validation="elbo")
def elbo_gumbel(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """Relaxed samples z = softmax((log q + Gumbel noise) / tau), and KL(q || p) (Jang et al. 2017)."""
    log_q = batch.log_posterior

    def draw() -> Tensor:
        noise = -torch.empty_like(log_q).exponential_().clamp_(min=1e-20).log_()
        relaxed = ((log_q + noise) / settings.gumbel_tau).softmax(-1)
        if settings.gumbel_straight_through:
            hard = F.one_hot(relaxed.argmax(-1), relaxed.size(-1)).type_as(relaxed)
            relaxed = hard + relaxed - relaxed.detach()
        return relaxed

    return _averaged(batch, settings, draw, batch.kl())


@register_objective("dirichlet", posterior=True, mean_context=True)
def dirichlet(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """Samples z ~ Dir(a_q), reparameterised, and KL(Dir(a_q) || Dir(a_p)); see :func:`concentrations`."""
    prior, posterior = concentrations(batch)
    mask = batch.source_padding

    def draw() -> Tensor:
        gamma = torch._standard_gamma(posterior).masked_fill(mask, 0.0)  # differentiable in posterior
        return gamma / gamma.sum(-1, keepdim=True).clamp(min=1e-30)

    return _averaged(batch, settings, draw, batch.sum(dirichlet_kl(posterior, prior, mask)))


def concentrations(batch: Batch, smallest: float = 1e-2, largest: float = 1e4) -> Tuple[Tensor, Tensor]:
    """Concentrations ``[B, T, N]`` of prior and posterior, kept within [smallest, largest] (1 on padding).

    a = exp(score) if the weights are a softmax of scores; the mean of Dir(a) is then the softmax itself. For other
    priors the mean is p and the sum of a is exp(logsumexp(scores)). Outside the range, samples in float32 are one-hot
    or constant.
    """
    latent, mask = batch.latent, batch.source_padding
    assert latent.posterior_scores is not None
    result = []
    for log_p, scores in ((latent.log_prior, latent.scores), (batch.log_posterior, latent.posterior_scores)):
        log_total = scores.type_as(log_p).masked_fill(mask, LOG_ZERO).logsumexp(-1, keepdim=True)
        log_a = (log_p + log_total).clamp(math.log(smallest), math.log(largest))
        result.append(log_a.masked_fill(mask, 0.0).exp())
    return result[0], result[1]


def _averaged(batch: Batch, settings: Settings, draw: Callable[[], Tensor], kl: Tensor) -> Terms:
    """Means over ``num_samples`` relaxed samples, plus the KL."""
    total, reconstruction, correct = batch.zeros(3)
    for _ in range(settings.num_samples):
        out = batch.relaxed(draw(), settings.smoothing)
        total = total + out.total / settings.num_samples
        reconstruction = reconstruction + batch.mean_nll(out) / settings.num_samples
        correct = correct + correct_words(out) / settings.num_samples
    return Terms(total + settings.kl_weight * kl, reconstruction, kl.detach(), posterior_correct=correct)
