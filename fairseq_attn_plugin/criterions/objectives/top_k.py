"""The marginal over the K most probable positions in training (Shankar, Garg and Sarawagi 2018, "Surprisingly easy hard
attention for sequence to sequence learning")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...attention import PartConfig
from ...errors import OptionError
from ...modules.latent.latent_alignments import top_positions
from ...ops.likelihoods.mixture_nll import mixture_nll
from ...options import option
from .batch import Batch, MovingAverage, Settings, Terms, correct_words
from .objective import register_objective

__all__ = ["TopKConfig", "topk_marginal"]


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
        if self.positions < 1:
            raise OptionError(f"--topk-positions {self.positions}: must be at least 1")


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
