"""Objectives that sum over some positions: the support of a sparse distribution, or the K most probable ones.

Sparse marginalisation (Correia et al. 2020, "Efficient Marginalization of Discrete and Structured Latent Variables via
Sparsity"): with sparsemax or entmax (``--attention-normalizer``, ``--posterior-normalizer``) a distribution over N
positions has a support of few positions. A sum over the support is the sum over all positions, value and gradient: it
needs no samples, and costs as many vocabulary projections as there are positions in the support.

With a linear output layer sums over all positions cost less (:mod:`fairseq_attn_plugin.ops.likelihoods.separable`).

The size of the support differs from word to word. Words of similar size are computed together, as if they belonged to
one sentence whose positions are those of all sentences of the batch.

The marginal over the K most probable positions in training is that of Shankar, Garg and Sarawagi 2018, "Surprisingly
easy hard attention for sequence to sequence learning".
"""

from dataclasses import dataclass
from typing import ClassVar, Iterator, Tuple

import torch
from torch import Tensor

from ...attention import PartConfig
from ...attention.part_registry import need_own
from ...modules.latent.latent_alignments import top_positions
from ...ops.likelihoods.alignment_blocks import Alignments
from ...ops.likelihoods.mixture_nll import expected_nll, mixture_nll
from ...options import option
from .enumerated import elbo_enum, marginal
from .objective import Batch, MovingAverage, Settings, Terms, correct_words, register_objective

# Probabilities below it are zero: the logarithm of a weight that is exactly zero is finite, -69 or less.
_SMALLEST = -69.0
# Greatest supports of the groups in which words are computed: 1, 2, 3, 4, 6, 8, 12, 16, ...
_WIDTHS = [1] + [width for power in range(1, 16) for width in (2**power, 3 * 2 ** (power - 1))]


@register_objective("sparse-marginal", validation="marginal", support="prior")
def sparse_marginal(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-log sum_j p(j) p(y|j) over the support of the prior."""
    if batch.latent.split:
        return marginal(batch, settings, average)
    loss = value = correct = batch.latent.log_prior.new_zeros(())
    for words, log_weights in _groups(batch, batch.latent.log_prior):
        out = mixture_nll(words, log_weights, settings.smoothing, log_weights.detach().exp().unsqueeze(0))
        loss = loss + out.total
        value = value - (log_weights + out.log_likelihood).logsumexp(-1).sum().detach()
        correct = correct + correct_words(out)
    return Terms(loss, value, None, value, correct)


@register_objective("sparse-elbo", posterior=True, support="posterior", validation="elbo")
def sparse_elbo(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-sum_j q(j) log p(y|j) + KL(q || p), the first sum over the support of q."""
    if batch.latent.split:
        return elbo_enum(batch, settings, average)
    loss = reconstruction = correct = batch.latent.log_prior.new_zeros(())
    for words, log_weights in _groups(batch, batch.log_posterior):
        weights = log_weights.exp()
        out = expected_nll(words, weights, settings.smoothing, weights.detach().unsqueeze(0))
        loss = loss + out.total
        reconstruction = reconstruction - (weights.detach() * out.log_likelihood).sum()
        correct = correct + correct_words(out)
    kl = batch.kl()
    return Terms(loss + settings.kl_weight * kl, reconstruction, kl.detach(), posterior_correct=correct)


def _groups(batch: Batch, log_weights: Tensor) -> Iterator[Tuple[Alignments, Tensor]]:
    """The words of a batch, each once, with the support of ``log_weights`` ``[B, T, N]`` as alignments.

    A group has W words with supports of at most K positions, and their weights ``[1, W, K]``; where a support is
    smaller, the rest has next to no probability.
    """
    latent, real = batch.latent, batch.real
    log_weights = log_weights[real]  # [W, N]
    sizes = (log_weights.detach() > _SMALLEST).sum(-1)
    first = real.nonzero()[:, :1] * latent.memory.size(1)  # of each word, the first position of its sentence
    query, target = latent.query[real], batch.target[real]
    keep = None if latent.keep is None else latent.keep[real]
    memory = latent.memory.flatten(0, 1).unsqueeze(0)
    sizes_of = torch.bucketize(sizes, torch.tensor(_WIDTHS, device=sizes.device))
    for width in sizes_of.unique().tolist():
        rows = sizes_of.eq(width).nonzero().squeeze(1)
        log_top, top = log_weights[rows].topk(max(1, int(sizes[rows].max())), dim=-1)
        words = Alignments(
            memory,
            query[rows].unsqueeze(0),
            latent.weight,
            latent.bias,
            target[rows].unsqueeze(0),
            torch.zeros_like(rows, dtype=torch.bool).unsqueeze(0),
            None,
            None if keep is None else keep[rows].unsqueeze(0),
            (first[rows] + top).unsqueeze(0),
        )
        yield words, log_top.unsqueeze(0)


@dataclass
class TopKConfig(PartConfig):
    """Options of ``topk-marginal``.

    Raises:
        OptionError: a number of positions below 1
    """

    prefix: ClassVar[str] = "topk"
    positions: int = option(5, "topk-marginal: number of positions, the most probable under the prior (default: 5)")
    renormalize: bool = option(
        False,
        "topk-marginal: divide the probabilities of these positions by their sum, which is what --latent-topk predicts "
        "from (default: a bound on the marginal, whose gradient moves the prior towards these positions)",
    )

    def __post_init__(self) -> None:
        need_own(self.positions >= 1, self, "positions", "at least 1")


@register_objective("topk-marginal", config=TopKConfig)
def topk_marginal(batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
    """-log sum_{j in top K of p} p(j) p(y|j), or with p(j) divided by their sum over the top K.

    Without the division it is above the exact marginal by log(1 / sum of the posterior's mass on the K positions), and
    its gradient is that of the marginal without the other terms. The set of positions has no gradient.
    """
    log_prior = batch.latent.log_prior
    log_weights, index = top_positions(log_prior, settings.own.positions)
    if not settings.own.renormalize:
        log_weights = log_prior.gather(-1, index)
    out = mixture_nll(batch.words(index), log_weights, settings.smoothing, log_weights.detach().exp().unsqueeze(0))
    value = -batch.sum((log_weights + out.log_likelihood).logsumexp(-1)).detach()
    return Terms(out.total, value, prior_correct=correct_words(out))
