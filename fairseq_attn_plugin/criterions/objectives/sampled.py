"""Objectives that are estimated from samples of source positions, or of relaxed alignments: weights z over all
positions, with -log p(y | sum_j z_j h_j).

In the score-function estimators the reward log p(y|z) - baseline is detached. The parameters of p(y|z) get the pathwise
gradient of log p(y|z). The KL is always exact.
"""

import math
from typing import Callable, Optional, Tuple

import torch
from torch import Tensor

from ...attention.normalizers import LOG_ZERO
from ...ops.likelihoods.mixture_nll import expected_nll, mixture_nll
from .objective import Batch, MovingAverage, Settings, Terms, correct_words, dirichlet_kl, register_objective, sample


@register_objective("hard-reinforce", validation="hard")
def hard_reinforce(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-sum_j p(j) log p(y|j), estimated by samples of p."""
    return _score_function(batch, settings, average, batch.latent.log_prior, None)


@register_objective("elbo-reinforce", posterior=True, validation="elbo")
def elbo_reinforce(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """The negative variational bound (ELBO), -sum_j q(j) log p(y|j) + KL(q || p); its first term by samples of q."""
    return _score_function(batch, settings, average, batch.log_posterior, batch.kl())


def _score_function(
    batch: Batch, settings: Settings, average: MovingAverage, log_probs: Tensor, kl: Optional[Tensor]
) -> Terms:
    count = settings.num_samples
    index = sample(log_probs, count)
    share = torch.full(index.shape, 1 / count, dtype=log_probs.dtype, device=log_probs.device)
    out = expected_nll(batch.words(index), share, settings.smoothing, share.unsqueeze(0))
    reward, prior_correct = out.score, None
    if settings.baseline == "soft":
        with torch.no_grad():
            baseline = batch.soft(settings.smoothing)
        reward, prior_correct = reward - baseline.score, correct_words(baseline)
    elif settings.baseline == "average":
        words = batch.real.sum().clamp(min=1)
        reward = reward - average.update(batch.sum(reward.mean(-1)) / words)
    score = batch.sum((reward * log_probs.gather(-1, index)).mean(-1))
    loss = out.total - score + score.detach()  # the score-function term has a gradient and the value zero
    reconstruction = batch.mean_nll(out)
    if kl is None:
        return Terms(loss, reconstruction, prior_correct=prior_correct)
    return Terms(loss + settings.kl_weight * kl, reconstruction, kl.detach(), None, prior_correct, correct_words(out))


@register_objective("elbo-sum-and-sample", posterior=True, validation="elbo")
def elbo_sum_and_sample(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """E_q f = sum_{top} q_j f_j + (1 - Q_top) f(z), z ~ q restricted to the rest (Liu et al. 2019).

    The weight of the sample is (1 - Q_top) q(z) / [q(z)], where [] is detached. Its value is (1 - Q_top), its gradient
    (1 - Q_top) grad log q(z), the score-function estimator of the rest. The gradients of q sum to zero, so that a
    constant can be subtracted from all f. The constant is the mean of f over the top positions, which is known already
    and does not depend on z.
    """
    log_q, kl = batch.log_posterior, batch.kl()
    count = min(settings.exact_positions, log_q.size(-1))
    log_top, top = log_q.topk(count, dim=-1)
    rest = log_q.detach().scatter(-1, top, LOG_ZERO)
    mass = rest.exp().sum(-1, keepdim=True)
    drawn = sample(rest, 1)
    log_drawn = log_q.gather(-1, drawn)
    weights = torch.cat([log_top.exp(), mass * (log_drawn - log_drawn.detach()).exp()], dim=-1)
    index = torch.cat([top, drawn], dim=-1)
    out = expected_nll(batch.words(index), weights, settings.smoothing, weights.detach().unsqueeze(0))
    exact = log_top.exp().detach()
    baseline = (exact * out.score[..., :-1]).sum(-1) / exact.sum(-1)
    # The gradient of the weights in expected_nll is -f. This term adds the baseline to it and zero to the value.
    centred = batch.sum(baseline * (weights - weights.detach()).sum(-1))
    reconstruction = -batch.sum((weights.detach() * out.log_likelihood).sum(-1))
    loss = out.total + centred + settings.kl_weight * kl
    return Terms(loss, reconstruction, kl.detach(), posterior_correct=correct_words(out))


@register_objective("wake-sleep", posterior=True, samples=5, validation="elbo")
def wake_sleep(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """Reweighted wake-sleep, -sum_k w_k [log p(y|z_k) + log p(z_k) + log q(z_k)] (Bornschein and Bengio 2015).

    The mixture over samples with weights p(z) / (K q(z)) has the gradient of the model, and its value is the
    importance-weighted bound on the marginal. The wake phase of q is added.

    With control variates the weights of log p(z_k) are w_k - b_k, those of log q(z_k) are w_k - 1 / K, where b_k =
    p(z_k) / q(z_k), normalised over the samples (Ba et al. 2015; Deng et al. 2018's code). E_q grad log q(z) = 0, and
    sum_k b_k grad log p(z_k) estimates E_p grad log p(z) = 0, by importance sampling with normalised weights.
    """
    log_q, log_p = batch.log_posterior, batch.latent.log_prior
    index = sample(log_q, settings.num_samples)
    log_qz, log_pz = log_q.gather(-1, index), log_p.gather(-1, index)
    log_weights = log_pz - log_qz.detach() - math.log(settings.num_samples)
    ones = torch.full_like(log_weights, 1 / settings.num_samples).unsqueeze(0)
    out = mixture_nll(batch.words(index), log_weights, settings.smoothing, ones)
    weights = (log_weights + out.score).softmax(-1).detach()
    loss = out.total - batch.sum((weights * log_qz).sum(-1))
    if settings.control_variates:
        variates = batch.sum((log_weights.softmax(-1).detach() * log_pz + log_qz / settings.num_samples).sum(-1))
        loss = loss + variates - variates.detach()  # they have gradients and the value zero
    reconstruction = batch.mean_nll(out)
    with torch.no_grad():
        kl = batch.kl()
    return Terms(loss, reconstruction, kl, posterior_correct=correct_words(out))


@register_objective("elbo-gumbel", posterior=True, validation="elbo")
def elbo_gumbel(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """Relaxed samples z = softmax((log q + Gumbel noise) / tau), and KL(q || p) (Jang et al. 2017)."""
    log_q = batch.log_posterior

    def draw() -> Tensor:
        noise = -torch.empty_like(log_q).exponential_().clamp_(min=1e-20).log_()
        return ((log_q + noise) / settings.gumbel_tau).softmax(-1)

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


def concentrations(batch: Batch) -> Tuple[Tensor, Tensor]:
    """Concentrations ``[B, T, N]`` of prior and posterior, kept within [0.01, 10,000] (1 on padding).

    a = exp(score) if the weights are a softmax of scores; the mean of Dir(a) is then the softmax itself. For other
    priors the mean is p and the sum of a is exp(logsumexp(scores)). Outside the range, samples in float32 are one-hot
    or constant.
    """
    latent, mask = batch.latent, batch.source_padding
    assert latent.posterior_scores is not None
    result = []
    for log_p, scores in ((latent.log_prior, latent.scores), (batch.log_posterior, latent.posterior_scores)):
        log_total = scores.type_as(log_p).masked_fill(mask, LOG_ZERO).logsumexp(-1, keepdim=True)
        log_a = (log_p + log_total).clamp(math.log(1e-2), math.log(1e4))
        result.append(log_a.masked_fill(mask, 0.0).exp())
    return result[0], result[1]


def _averaged(batch: Batch, settings: Settings, draw: Callable[[], Tensor], kl: Tensor) -> Terms:
    """Means over ``num_samples`` relaxed samples, plus the KL."""
    total = reconstruction = correct = batch.latent.log_prior.new_zeros(())
    for _ in range(settings.num_samples):
        out = batch.relaxed(draw(), settings.smoothing)
        total = total + out.total / settings.num_samples
        reconstruction = reconstruction + batch.mean_nll(out) / settings.num_samples
        correct = correct + correct_words(out) / settings.num_samples
    return Terms(total + settings.kl_weight * kl, reconstruction, kl.detach(), posterior_correct=correct)
