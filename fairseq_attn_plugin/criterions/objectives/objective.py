"""What an objective is: a function from :class:`Batch`, :class:`Settings` and :class:`MovingAverage` to :class:`Terms`,
which registers itself with :func:`register_objective`, from this package or from outside. Options of its own are the
fields of a dataclass with a ``prefix``, like the options of a mechanism; the function finds them in ``settings.own``.

Beside these are samples, entropies and divergences of distributions over source positions.
"""

from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Type

import torch
from torch import Tensor

from ...attention import Option, PartConfig, options_of
from ...attention.part_registry import announce, check_options
from ...modules.latent.latent_alignments import LatentAlignments
from ...ops.likelihoods.alignment_blocks import Alignments
from ...ops.likelihoods.mixture_nll import NLL, expected_nll


@dataclass
class Settings:
    """Settings of the objectives; the options of the criterion explain them."""

    num_samples: int = 1
    baseline: str = "soft"
    kl_weight: float = 1.0
    exact_positions: int = 4
    gumbel_tau: float = 0.1
    smoothing: float = 0.0
    control_variates: bool = False
    own: Any = None  # the options that the objective has of its own


class Terms(NamedTuple):
    """Sums over words, in nats."""

    loss: Tensor  # what is minimised; differentiable
    reconstruction: Tensor  # -E log p(y|z), as estimated
    kl: Optional[Tensor] = None  # without the KL weight
    marginal: Optional[Tensor] = None  # -log sum_j p(j) p(y|j), if all alignments are computed
    prior_correct: Optional[Tensor] = None  # words that the prior's mixture (or mean context) predicts
    posterior_correct: Optional[Tensor] = None  # the same under q (or its samples)


class Batch(NamedTuple):
    """B sentences of T words, with N alignments each."""

    latent: LatentAlignments
    target: Tensor  # [B, T]
    pad: int

    @property
    def real(self) -> Tensor:
        """``[B, T]``, False on padding of the target."""
        return self.target.ne(self.pad)

    @property
    def log_posterior(self) -> Tensor:
        """log q, ``[B, T, N]``; the model must have a posterior network."""
        assert self.latent.log_posterior is not None
        return self.latent.log_posterior

    @property
    def source_padding(self) -> Tensor:
        """``[B, T, N]``, True on padding."""
        if self.latent.pad_mask is None:
            return torch.zeros_like(self.latent.log_prior, dtype=torch.bool)
        return self.latent.pad_mask.unsqueeze(1).expand_as(self.latent.log_prior)

    def words(self, index: Optional[Tensor] = None) -> Alignments:
        """The words with all alignments, or with those of ``index`` ``[B, T, K]``."""
        return self.latent.words(self.target, self.pad, index)

    def mixtures(self) -> Tensor:
        """Prior and, if the model has one, posterior: ``[C, B, T, N]``, no gradient."""
        both = (self.latent.log_prior, self.latent.log_posterior)
        return torch.stack([log_p.detach().exp() for log_p in both if log_p is not None])

    def kl(self) -> Tensor:
        """KL(q || p), summed over the words."""
        return self.sum(kl_divergence(self.log_posterior, self.latent.log_prior))

    def soft(self, smoothing: float = 0.0) -> NLL:
        """-log p(y | c), with c the prior's mean context."""
        return self.relaxed(self.latent.log_prior.exp(), smoothing)

    def relaxed(self, weights: Tensor, smoothing: float = 0.0) -> NLL:
        """-log p(y | sum_j w_j h_j) for weights ``[B, T, N]``."""
        ones = self.latent.log_prior.new_ones(*self.target.shape, 1)
        words = self.latent.relaxed_words(self.target, self.pad, weights)
        return expected_nll(words, ones, smoothing, ones.unsqueeze(0))

    def sum(self, values: Tensor) -> Tensor:
        """Sum over the words of ``values`` ``[B, T]``."""
        return (values * self.real).sum()

    def mean_nll(self, out: NLL) -> Tensor:
        """-log p(y | z) without label smoothing, mean over the K alignments of ``out``, summed over the words."""
        return -self.sum(out.log_likelihood.mean(-1))


class MovingAverage:
    """The exponential moving average of the rewards. For the first update it is the mean of that update.

    Attributes:
        value: a scalar on the device of the rewards, None before the first update
    """

    def __init__(self, decay: float = 0.99):
        self.decay = decay
        self.value: Optional[Tensor] = None

    def update(self, mean: Tensor) -> Tensor:
        """Adds the mean of new rewards; returns the average before them, which is their baseline."""
        mean = mean.detach()
        before = mean if self.value is None else self.value
        self.value = before + (1 - self.decay) * (mean - before)
        return before


Objective = Callable[[Batch, Settings, MovingAverage], Terms]
# What validation reports as the value of an objective: exact values by enumeration, or the objective itself.
VALIDATIONS = ("own", "soft", "marginal", "hard", "elbo")


@dataclass(frozen=True)
class RegisteredObjective:
    """An objective with what it declares.

    Attributes:
        function: the objective
        Config: dataclass of its own options
        posterior: it reads q(z | x, y), so that the model needs the posterior network
        mean_context: the model that it trains predicts words from the prior's mean context, not from the marginal
        samples: the number where ``--num-samples`` is not given
        validation: what validation reports as its value: ``own``, the objective itself without gradients; or, by
            enumeration, ``soft``, ``marginal``, ``hard`` or ``elbo``
        recompute: whether to compute the posterior network again in the backward pass, for objectives that enumerate
        support: ``prior`` or ``posterior``, where it sums over the positions to which that gives a probability above
            zero, so that the model needs a sparse one
        chain: it sums over first-order alignments, so that the model needs them; its ``marginal`` is then the model's
            prediction
    """

    function: Objective
    Config: Type[PartConfig] = PartConfig
    posterior: bool = False
    mean_context: bool = False
    samples: int = 1
    validation: str = "own"
    recompute: bool = False
    support: str = ""
    chain: bool = False

    def __call__(self, batch: Batch, settings: Settings, average: MovingAverage) -> Terms:
        """The terms of the loss; options of its own have their defaults where ``settings`` has none."""
        if settings.own is None:
            settings = replace(settings, own=self.Config())
        return self.function(batch, settings, average)

    def configure(self, values: Any) -> PartConfig:
        """Its own options, from the attributes of ``values``."""
        own = options_of(self.Config)
        return self.Config(**{option.field.name: getattr(values, name) for name, option in own.items()})


OBJECTIVES: Dict[str, RegisteredObjective] = {}


def register_objective(
    name: str, *, config: Type[PartConfig] = PartConfig, validation: str = "own", **declared: Any
) -> Callable[[Objective], Objective]:
    """Decorator that makes an objective available as ``--objective NAME`` of ``--criterion latent_alignment``.

    Args:
        config: dataclass of its own options
        validation, declared: attributes of :class:`RegisteredObjective`

    Raises:
        ValueError: the name, or the name of one of the options, is taken; another ``validation``
    """

    def register(function: Objective) -> Objective:
        if name in OBJECTIVES:
            raise ValueError(f"the objective {name!r} is registered already")
        if validation not in VALIDATIONS:
            raise ValueError(f"the objective {name!r} has validation {validation!r}; choose from {VALIDATIONS}")
        check_options(f"the objective {name!r}", config)
        OBJECTIVES[name] = RegisteredObjective(function, config, validation=validation, **declared)
        announce(config, lambda: OBJECTIVES.pop(name))
        return function

    return register


def objective_options() -> Dict[str, Option]:
    """The options that objectives have of their own, by name."""
    return {name: own for found in OBJECTIVES.values() for name, own in options_of(found.Config).items()}


def having(option: str) -> List[str]:
    """The objectives that have an option of their own."""
    return [name for name, found in OBJECTIVES.items() if option in options_of(found.Config)]


def correct_words(out: NLL, mixture: int = 0) -> Tensor:
    """The number of words that the given mixture of ``out`` predicts."""
    assert out.correct is not None
    return out.correct[mixture].sum()


def posterior_correct_words(batch: Batch, out: NLL) -> Optional[Tensor]:
    """The number of words that the posterior predicts, from ``out`` for :meth:`Batch.mixtures`; None without one."""
    return None if batch.latent.log_posterior is None else correct_words(out, 1)


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
