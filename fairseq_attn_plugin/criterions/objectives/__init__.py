"""The objectives of latent alignment models, in plain torch.

With p(j) the prior, q(j) the posterior network, log p(y|j) the log-likelihood of the target word under alignment j, all
for one word; c the prior's mean context; every objective is a loss to minimise, summed over words (Deng et al. 2018):

    soft                 -log p(y | c)
    marginal             -log sum_j p(j) p(y|j)
    hard-enum            -sum_j p(j) log p(y|j)
    hard-reinforce       the same, one or more samples of p
    elbo-enum            -sum_j q(j) log p(y|j) + KL(q || p)
    elbo-reinforce       the same, samples of q
    elbo-gumbel          -log p(y | sum_j z_j h_j) + KL(q || p), z = softmax((log q + Gumbel noise) / tau)
                         (Jang et al. 2017)
    elbo-sum-and-sample  elbo-enum's gradient from the K most probable positions under q and one sample of the rest
                         (Liu et al. 2019, "Rao-Blackwellized stochastic gradients for discrete distributions")
    wake-sleep           -sum_k w_k [log p(y|z_k) + log p(z_k) + log q(z_k)], z_k ~ q, w_k proportional to
                         p(z_k) p(y|z_k) / q(z_k)  (Bornschein and Bengio 2015; Ba et al. 2015)
    dirichlet            -log p(y | sum_j z_j h_j) + KL(Dir(a_q) || Dir(a_p)), z ~ Dir(a_q) reparameterised

In the score-function estimators (hard-reinforce, elbo-reinforce) the reward log p(y|z) - baseline is detached;
the model's own parameters get the pathwise gradient of log p(y|z). KL is always exact.

Every function returns :class:`Terms` of sums over words, in nats.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, Dict, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...attention.normalizers import LOG_ZERO
from ...modules.latent_decoder import LatentAlignments, top_positions
from ...ops.alignment_blocks import Alignments
from ...ops.mixture_nll import NLL, expected_nll, log_likelihoods, mixture_nll

__all__ = [
    "BASELINES",
    "NEEDS_POSTERIOR",
    "OBJECTIVES",
    "Batch",
    "MovingAverage",
    "Objective",
    "Settings",
    "Terms",
    "evaluate",
]

BASELINES = ("soft", "none", "average")


@dataclass
class Settings:
    """Options of the objectives; see the criterion for their meaning."""

    num_samples: int = 1
    baseline: str = "soft"
    kl_weight: float = 1.0
    exact_positions: int = 4
    gumbel_tau: float = 0.1
    gumbel_straight_through: bool = False
    smoothing: float = 0.0


class Batch(NamedTuple):
    """Words and what their likelihoods under all alignments are computed from."""

    latent: LatentAlignments
    target: Tensor  # [B, T]
    pad: int

    @property
    def real(self) -> Tensor:
        """``[B, T]``, which steps have a word."""
        return self.target.ne(self.pad)

    @property
    def log_posterior(self) -> Tensor:
        assert self.latent.log_posterior is not None
        return self.latent.log_posterior

    def soft(self, smoothing: float = 0.0, accuracy: bool = True) -> NLL:
        """-log p(y | c) of the prior's mean context."""
        words = self.latent.relaxed_words(self.target, self.pad, self.latent.log_prior.exp())
        ones = self.latent.log_prior.new_ones(*self.target.shape, 1)
        return expected_nll(words, ones, smoothing, ones.unsqueeze(0) if accuracy else None)

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the words of ``values`` ``[B, T]``."""
        return (values * self.real).sum()


class Terms(NamedTuple):
    """Sums over words, in nats."""

    loss: Tensor  # what is minimised; differentiable
    reconstruction: Tensor  # -E log p(y|z), as estimated
    kl: Optional[Tensor] = None  # without the KL weight
    marginal: Optional[Tensor] = None  # -log sum_j p(j) p(y|j), where all alignments were computed
    prior_correct: Optional[Tensor] = None  # words that the prior's mixture (or mean context) predicts
    posterior_correct: Optional[Tensor] = None  # the same under q (or its samples)


class MovingAverage:
    """The mean reward so far, exponentially weighted; the first update takes its own mean."""

    def __init__(self, decay: float = 0.99):
        self.decay, self.value = decay, float("nan")

    def update(self, mean: float) -> float:
        """The baseline for rewards whose mean is ``mean``: the average before them."""
        before = mean if self.value != self.value else self.value
        self.value = before + (1 - self.decay) * (mean - before)
        return before


Objective = Callable[[Batch, Settings, MovingAverage], Terms]


def sample(log_probs: Tensor, count: int) -> Tensor:
    """``count`` independent samples of every distribution ``[B, T, N]``: ``[B, T, count]``.

    argmax_j p_j / E_j with E_j ~ Exp(1) is distributed as p; positions with p = 0 are never drawn.
    """
    probs = log_probs.detach().exp().unsqueeze(2).expand(-1, -1, count, -1)
    return (probs / torch.empty_like(probs).exponential_().clamp_(min=torch.finfo(probs.dtype).tiny)).argmax(-1)


def kl_divergence(log_q: Tensor, log_p: Tensor) -> Tensor:
    """sum_j q (log q - log p): ``[B, T, N]`` to ``[B, T]``. Padding has ``LOG_ZERO`` in both and counts for nothing."""
    return (log_q.exp() * (log_q - log_p)).sum(-1)


def entropy(log_p: Tensor) -> Tensor:
    """-sum_j p log p: ``[B, T, N]`` to ``[B, T]``."""
    return -(log_p.exp() * log_p).sum(-1)


def soft(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    out = batch.soft(settings.smoothing)
    return Terms(out.total, _unsmoothed(batch, out), prior_correct=_count(out, 0))


def marginal(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    log_prior = batch.latent.log_prior
    out = mixture_nll(_every(batch), log_prior, settings.smoothing, _mixtures(batch))
    exact = -batch.sum((log_prior + out.log_likelihood).logsumexp(-1)).detach()
    return Terms(out.total, exact, None, exact, _count(out, 0), _posterior_count(batch, out))


def hard_enum(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    return _enumerated(batch, settings, batch.latent.log_prior, None)


def elbo_enum(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    return _enumerated(batch, settings, batch.log_posterior, _kl(batch))


def hard_reinforce(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    return _score_function(batch, settings, average, batch.latent.log_prior, None)


def elbo_reinforce(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    return _score_function(batch, settings, average, batch.log_posterior, _kl(batch))


def elbo_gumbel(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    log_q, kl = batch.log_posterior, _kl(batch)
    total, reconstruction, correct = _zeros(batch, 3)
    for _ in range(settings.num_samples):
        noise = -torch.empty_like(log_q).exponential_().clamp_(min=1e-20).log_()
        relaxed = ((log_q + noise) / settings.gumbel_tau).softmax(-1)
        if settings.gumbel_straight_through:
            hard = F.one_hot(relaxed.argmax(-1), relaxed.size(-1)).type_as(relaxed)
            relaxed = hard + relaxed - relaxed.detach()
        out = _relaxed(batch, relaxed, settings)
        total = total + out.total / settings.num_samples
        reconstruction = reconstruction + _unsmoothed(batch, out) / settings.num_samples
        correct = correct + _count(out, 0) / settings.num_samples
    return Terms(total + settings.kl_weight * kl, reconstruction, kl.detach(), posterior_correct=correct)


def elbo_sum_and_sample(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """E_q f = sum_{top} q_j f_j + (1 - Q_top) f(z), z ~ q restricted to the rest.

    The weight of the sample is (1 - Q_top) q(z) / [q(z)], [] detached: its value is (1 - Q_top), its gradient
    (1 - Q_top) grad log q(z), which is the score-function estimator of the rest. A constant may be taken from all f,
    since the gradients of q sum to zero: the mean of f over the top, which costs nothing and does not depend on z.
    """
    log_q, kl = batch.log_posterior, _kl(batch)
    count = min(settings.exact_positions, log_q.size(-1))
    log_top, top = log_q.topk(count, dim=-1)
    rest = log_q.detach().scatter(-1, top, LOG_ZERO)
    mass = rest.exp().sum(-1, keepdim=True)
    drawn = sample(rest, 1)
    log_drawn = log_q.gather(-1, drawn)
    weights = torch.cat([log_top.exp(), mass * (log_drawn - log_drawn.detach()).exp()], dim=-1)
    index = torch.cat([top, drawn], dim=-1)
    out = expected_nll(_at(batch, index), weights, settings.smoothing, weights.detach().unsqueeze(0))
    exact = log_top.exp().detach()
    baseline = (exact * out.score[..., :-1]).sum(-1) / exact.sum(-1)
    # expected_nll's gradient of w is -f: this adds the baseline to it and nothing to the value
    centred = batch.sum(baseline * (weights - weights.detach()).sum(-1))
    reconstruction = -batch.sum((weights.detach() * out.log_likelihood).sum(-1))
    loss = out.total + centred + settings.kl_weight * kl
    return Terms(loss, reconstruction, kl.detach(), posterior_correct=_count(out, 0))


def wake_sleep(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """Reweighted wake-sleep: the mixture over samples with weights p(z) / (K q(z)) has the wanted gradient of the
    model, and its value is the importance-weighted bound on the marginal; the wake phase of q is added."""
    log_q, log_p = batch.log_posterior, batch.latent.log_prior
    index = sample(log_q, settings.num_samples)
    log_qz, log_pz = log_q.gather(-1, index), log_p.gather(-1, index)
    log_weights = log_pz - log_qz.detach() - math.log(settings.num_samples)
    ones = torch.full_like(log_weights, 1 / settings.num_samples).unsqueeze(0)
    out = mixture_nll(_at(batch, index), log_weights, settings.smoothing, ones)
    weights = (log_weights + out.score).softmax(-1).detach()
    loss = out.total - batch.sum((weights * log_qz).sum(-1))
    reconstruction = -batch.sum(out.log_likelihood.mean(-1))
    with torch.no_grad():
        kl = _kl(batch)
    return Terms(loss, reconstruction, kl, posterior_correct=_count(out, 0))


def dirichlet(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """Relaxed alignments. Both concentrations are a = exp(score) where weights are a softmax of scores: the mean of
    Dir(a) is then the softmax itself. For other priors the mean is p and the total exp(logsumexp(scores))."""
    prior, posterior = concentrations(batch)
    mask = _padding(batch, prior)
    kl = batch.sum(dirichlet_kl(posterior, prior, mask))
    total, reconstruction, correct = _zeros(batch, 3)
    for _ in range(settings.num_samples):
        gamma = torch._standard_gamma(posterior).masked_fill(mask, 0.0)  # reparameterised: differentiable in posterior
        out = _relaxed(batch, gamma / gamma.sum(-1, keepdim=True).clamp(min=1e-30), settings)
        total = total + out.total / settings.num_samples
        reconstruction = reconstruction + _unsmoothed(batch, out) / settings.num_samples
        correct = correct + _count(out, 0) / settings.num_samples
    return Terms(total + settings.kl_weight * kl, reconstruction, kl.detach(), posterior_correct=correct)


def concentrations(batch: Batch, smallest: float = 1e-2, largest: float = 1e4) -> Tuple[Tensor, Tensor]:
    """Concentrations ``[B, T, N]`` of prior and posterior, kept within [smallest, largest] (1 on padding).

    Beyond that range samples are one-hot, or constant, in float32.
    """
    latent = batch.latent
    assert latent.posterior_scores is not None
    result = []
    for log_p, scores in ((latent.log_prior, latent.scores), (batch.log_posterior, latent.posterior_scores)):
        mask = _padding(batch, log_p)
        log_total = scores.type_as(log_p).masked_fill(mask, LOG_ZERO).logsumexp(-1, keepdim=True)
        log_a = (log_p + log_total).clamp(math.log(smallest), math.log(largest))
        result.append(log_a.masked_fill(mask, 0.0).exp())
    return result[0], result[1]


def dirichlet_kl(q: Tensor, p: Tensor, mask: Tensor) -> Tensor:
    """KL(Dir(q) || Dir(p)) over the positions that are not in ``mask``: ``[B, T, N]`` to ``[B, T]``.

    lgamma(sum q) - lgamma(sum p) + sum_j [lgamma(p_j) - lgamma(q_j) + (q_j - p_j) (digamma(q_j) - digamma(sum q))]

    In float64: these are small differences of large numbers.
    """
    kind, q, p = q.dtype, q.double(), p.double()
    q_sum, p_sum = (x.masked_fill(mask, 0.0).sum(-1, keepdim=True) for x in (q, p))
    terms = p.lgamma() - q.lgamma() + (q - p) * (q.digamma() - q_sum.digamma())
    return ((q_sum.lgamma() - p_sum.lgamma()).squeeze(-1) + terms.masked_fill(mask, 0.0).sum(-1)).to(kind)


OBJECTIVES: Dict[str, Objective] = {
    "soft": soft,
    "marginal": marginal,
    "hard-enum": hard_enum,
    "hard-reinforce": hard_reinforce,
    "elbo-enum": elbo_enum,
    "elbo-reinforce": elbo_reinforce,
    "elbo-gumbel": elbo_gumbel,
    "elbo-sum-and-sample": elbo_sum_and_sample,
    "wake-sleep": wake_sleep,
    "dirichlet": dirichlet,
}
NEEDS_POSTERIOR = tuple(name for name in OBJECTIVES if not name.startswith(("soft", "marginal", "hard")))


class Evaluation(NamedTuple):
    """What validation reports, exactly, by enumerating all alignments; sums over words, in nats."""

    soft: Tensor  # -log p(y | c)
    soft_correct: Tensor
    marginal: Tensor  # -log sum_j p(j) p(y|j)
    marginal_correct: Tensor
    hard: Tensor  # -sum_j p(j) log p(y|j)
    topk: Optional[Tensor] = None  # the marginal over the K most probable positions
    reconstruction: Optional[Tensor] = None  # -sum_j q(j) log p(y|j)
    kl: Optional[Tensor] = None
    posterior_correct: Optional[Tensor] = None


def evaluate(batch: Batch, topk: Optional[int] = None) -> Evaluation:
    """Exact values of a batch, without gradients."""
    with torch.no_grad():
        mean = batch.soft()
        out = log_likelihoods(_every(batch), _mixtures(batch))
        log_prior, log_q, f = batch.latent.log_prior, batch.latent.log_posterior, out.log_likelihood
        restricted = None
        if topk is not None:
            log_weights, index = top_positions(log_prior, topk)
            restricted = -batch.sum((log_weights + f.gather(-1, index)).logsumexp(-1))
        result = Evaluation(
            mean.total,
            _count(mean, 0),
            -batch.sum((log_prior + f).logsumexp(-1)),
            _count(out, 0),
            -batch.sum((log_prior.exp() * f).sum(-1)),
            restricted,
        )
        if log_q is None:
            return result
        return result._replace(
            reconstruction=-batch.sum((log_q.exp() * f).sum(-1)), kl=_kl(batch), posterior_correct=_count(out, 1)
        )


def _every(batch: Batch) -> Alignments:
    return batch.latent.words(batch.target, batch.pad)


def _at(batch: Batch, index: Tensor) -> Alignments:
    return batch.latent.words(batch.target, batch.pad, index)


def _mixtures(batch: Batch) -> Tensor:
    """Prior and, where there is one, posterior: ``[C, B, T, N]``, no gradient."""
    both = [x.detach().exp() for x in (batch.latent.log_prior, batch.latent.log_posterior) if x is not None]
    return torch.stack(both)


def _kl(batch: Batch) -> Tensor:
    return batch.sum(kl_divergence(batch.log_posterior, batch.latent.log_prior))


def _count(out: NLL, mixture: int) -> Tensor:
    assert out.correct is not None
    return out.correct[mixture].sum()


def _posterior_count(batch: Batch, out: NLL) -> Optional[Tensor]:
    return None if batch.latent.log_posterior is None else _count(out, 1)


def _zeros(batch: Batch, count: int) -> Tuple[Tensor, ...]:
    return tuple(batch.latent.log_prior.new_zeros(()) for _ in range(count))


def _padding(batch: Batch, like: Tensor) -> Tensor:
    if batch.latent.pad_mask is None:
        return torch.zeros_like(like, dtype=torch.bool)
    return batch.latent.pad_mask.unsqueeze(1).expand_as(like)


def _relaxed(batch: Batch, weights: Tensor, settings: Settings) -> NLL:
    ones = batch.latent.log_prior.new_ones(*batch.target.shape, 1)
    words = batch.latent.relaxed_words(batch.target, batch.pad, weights)
    return expected_nll(words, ones, settings.smoothing, ones.unsqueeze(0))


def _unsmoothed(batch: Batch, out: NLL) -> Tensor:
    return -batch.sum(out.log_likelihood.mean(-1))


def _enumerated(batch: Batch, settings: Settings, log_weights: Tensor, kl: Optional[Tensor]) -> Terms:
    weights = log_weights.exp()
    out = expected_nll(_every(batch), weights, settings.smoothing, _mixtures(batch))
    reconstruction = -batch.sum((weights.detach() * out.log_likelihood).sum(-1))
    exact = -batch.sum((batch.latent.log_prior + out.log_likelihood).logsumexp(-1)).detach()
    loss = out.total if kl is None else out.total + settings.kl_weight * kl
    return Terms(
        loss, reconstruction, None if kl is None else kl.detach(), exact, _count(out, 0), _posterior_count(batch, out)
    )


def _score_function(
    batch: Batch, settings: Settings, average: MovingAverage, log_probs: Tensor, kl: Optional[Tensor]
) -> Terms:
    count = settings.num_samples
    index = sample(log_probs, count)
    share = torch.full(index.shape, 1 / count, dtype=log_probs.dtype, device=log_probs.device)
    out = expected_nll(_at(batch, index), share, settings.smoothing, share.unsqueeze(0))
    reward, prior_correct = out.score, None
    if settings.baseline == "soft":
        with torch.no_grad():
            baseline = batch.soft(settings.smoothing)
        reward, prior_correct = reward - baseline.score, _count(baseline, 0)
    elif settings.baseline == "average":
        words = int(batch.real.sum())
        reward = reward - average.update(batch.sum(reward.mean(-1)).item() / max(1, words))
    score = batch.sum((reward * log_probs.gather(-1, index)).mean(-1))
    loss = out.total - score + score.detach()  # the score-function term has a gradient and no value
    if kl is None:
        return Terms(loss, _unsmoothed(batch, out), prior_correct=prior_correct, posterior_correct=None)
    return Terms(
        loss + settings.kl_weight * kl, _unsmoothed(batch, out), kl.detach(), None, prior_correct, _count(out, 0)
    )
