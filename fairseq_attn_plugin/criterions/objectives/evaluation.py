"""Exact values for validation, by enumeration of all alignments."""

from __future__ import annotations

from typing import NamedTuple, Optional

import torch
from torch import Tensor

from ...modules.latent.latent_alignments import top_positions
from ...ops.likelihoods.mixture_nll import log_likelihoods
from .batch import Batch, correct_words

__all__ = ["Evaluation", "evaluate"]


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
            reconstruction=-batch.sum((log_q.exp() * f).sum(-1)),
            kl=batch.kl(),
            posterior_correct=correct_words(out, 1),
        )
