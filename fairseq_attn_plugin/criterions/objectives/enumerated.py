"""Objectives that sum over all alignments exactly, and exact values for validation; ``first-order`` sums over those of
``--arch lstm_latent_first_order``."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from ...modules.latent.latent_alignments import top_positions
from ...ops.likelihoods.first_order import JumpChain, forward_algorithm
from ...ops.likelihoods.mixture_nll import expected_nll, log_likelihoods, mixture_nll
from .objective import Batch, MovingAverage, Settings, Terms, correct_words, posterior_correct_words, register_objective


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
    loss, value = (out.total, None) if kl is None else (out.total + settings.kl_weight * kl, kl.detach())
    return Terms(loss, reconstruction, value, exact, correct_words(out), posterior_correct_words(batch, out))


@register_objective("first-order", chain=True)
def first_order(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-log sum_z prod_t p(z_t | z_{t-1}) p(y_t | z_t), summed over the sentences
    (:mod:`fairseq_attn_plugin.ops.likelihoods.first_order`; Wu and Cotterell 2019).

    The derivative of log p(y) by log p(y_t | z_t = j) is the posterior p(z_t = j | y). All log p(y_t | z_t = j) are
    computed without gradients, the posteriors from them, and then the gradients of sum_tj p(z_t = j | y) log p(y_t |
    z_t = j), block by block. Without a chain all jumps are equal, which is the objective ``marginal``.
    """
    latent = batch.latent
    content, nothing = latent.log_prior, torch.zeros_like(latent.log_prior)
    chain = latent.chain or JumpChain(torch.zeros_like(content[:, 0]), torch.zeros_like(content[0, 0]))
    with torch.no_grad():
        words = expected_nll(batch.words(), nothing, settings.smoothing)
    emissions = words.score.requires_grad_(torch.is_grad_enabled())
    predictions, likelihoods = forward_algorithm(chain, content, emissions)
    total, shares = batch.sum(likelihoods), nothing
    if torch.is_grad_enabled():
        (shares,) = torch.autograd.grad(total, emissions, retain_graph=True)
    out = expected_nll(batch.words(), shares, settings.smoothing, predictions.detach().exp().unsqueeze(0))
    exact = -total.detach()
    if settings.smoothing:
        with torch.no_grad():
            exact = -batch.sum(forward_algorithm(chain, content, words.log_likelihood)[1])
    # the gradients of p(y_t | z_t) without the value of their sum
    return Terms(-total + out.total - out.total.detach(), exact, None, exact, correct_words(out))


class Evaluation(NamedTuple):
    """Sums over words, in nats, and numbers of words."""

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
    """Exact values of a batch, without gradients; ``topk`` is the K of the restricted marginal."""
    with torch.no_grad():
        mean = batch.soft()
        out = log_likelihoods(batch.words(), batch.mixtures())
        log_prior, log_q, f = batch.latent.log_prior, batch.latent.log_posterior, out.log_likelihood
        restricted = None
        if topk is not None:
            log_weights, index = top_positions(log_prior, topk)
            restricted = -batch.sum((log_weights + f.gather(-1, index)).logsumexp(-1))
        result = Evaluation(
            mean.total,
            correct_words(mean),
            -batch.sum((log_prior + f).logsumexp(-1)),
            correct_words(out),
            -batch.sum((log_prior.exp() * f).sum(-1)),
            restricted,
        )
        if log_q is None:
            return result
        return result._replace(
            reconstruction=-batch.sum((log_q.exp() * f).sum(-1)), kl=batch.kl(), posterior_correct=correct_words(out, 1)
        )
