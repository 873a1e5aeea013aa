"""The exact likelihood of first-order alignments (Wu and Cotterell 2019), for ``--arch lstm_latent_first_order``."""

from __future__ import annotations

import torch
from torch import Tensor

from ...ops.likelihoods.first_order import JumpChain, forward_algorithm
from ...ops.likelihoods.mixture_nll import expected_nll
from .batch import Batch, MovingAverage, Settings, Terms, correct_words
from .objective import register_objective

__all__ = ["first_order"]


@register_objective("first-order", chain=True)
def first_order(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-log sum_z prod_t p(z_t | z_{t-1}) p(y_t | z_t), summed over the sentences
    (:mod:`...ops.likelihoods.first_order`).

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
    exact = _exact(batch, chain, words.log_likelihood) if settings.smoothing else -total.detach()
    # the gradients of p(y_t | z_t) without the value of their sum
    return Terms(-total + out.total - out.total.detach(), exact, None, exact, correct_words(out))


def _exact(batch: Batch, chain: JumpChain, emissions: Tensor) -> Tensor:
    """-log p(y) without label smoothing."""
    with torch.no_grad():
        return -batch.sum(forward_algorithm(chain, batch.latent.log_prior, emissions)[1])
