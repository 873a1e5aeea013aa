"""Samples, entropies and divergences of distributions over source positions."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["dirichlet_kl", "entropy", "kl_divergence", "sample"]


def sample(log_probs: Tensor, count: int) -> Tensor:
    """``count`` independent samples of every distribution ``[B, T, N]``: ``[B, T, count]``.

    argmax_j p_j / E_j with E_j ~ Exp(1) has the distribution p. Positions with p = 0 are never drawn.
    """
    probs = log_probs.detach().exp().unsqueeze(2).expand(-1, -1, count, -1)
    return (probs / torch.empty_like(probs).exponential_().clamp_(min=torch.finfo(probs.dtype).tiny)).argmax(-1)


def kl_divergence(log_q: Tensor, log_p: Tensor) -> Tensor:
    """sum_j q (log q - log p): ``[B, T, N]`` to ``[B, T]``. Padding has ``LOG_ZERO`` in both and adds nothing."""
    return (log_q.exp() * (log_q - log_p)).sum(-1)


def entropy(log_p: Tensor) -> Tensor:
    """-sum_j p log p: ``[B, T, N]`` to ``[B, T]``."""
    return -(log_p.exp() * log_p).sum(-1)


def dirichlet_kl(q: Tensor, p: Tensor, mask: Tensor) -> Tensor:
    """KL(Dir(q) || Dir(p)) over the positions where ``mask`` is False: ``[B, T, N]`` to ``[B, T]``.

    lgamma(sum q) - lgamma(sum p) + sum_j [lgamma(p_j) - lgamma(q_j) + (q_j - p_j) (digamma(q_j) - digamma(sum q))]

    The sum is computed in float64, because its terms are small differences of large numbers.
    """
    kind, q, p = q.dtype, q.double(), p.double()
    q_sum, p_sum = (x.masked_fill(mask, 0.0).sum(-1, keepdim=True) for x in (q, p))
    terms = p.lgamma() - q.lgamma() + (q - p) * (q.digamma() - q_sum.digamma())
    return ((q_sum.lgamma() - p_sum.lgamma()).squeeze(-1) + terms.masked_fill(mask, 0.0).sum(-1)).to(kind)
