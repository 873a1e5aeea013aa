"""Options of ``--criterion latent_alignment``, and the checks of their values."""

from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.dataclass import FairseqDataclass
from omegaconf import II

from ..added_options import add_options
from ..attention import Option, follow
from ..attention.part_registry import choices
from ..errors import OptionError
from ..options import flag, need, option
from .objectives import BASELINES, OBJECTIVES, having, objective_options

__all__ = ["LatentAlignmentConfig", "check_config", "check_read"]

MOST_SAMPLES = 1000  # more is a slip, and takes hours for a batch
# Which of the package's objectives read an option of the criterion that not all of them read.
REINFORCE = ("hard-reinforce", "elbo-reinforce")
READ_BY = {
    "num_samples": (*REINFORCE, "elbo-gumbel", "dirichlet", "wake-sleep"),
    "baseline": REINFORCE,
    "exact_positions": ("elbo-sum-and-sample",),
    **dict.fromkeys(
        ("gumbel_tau", "gumbel_tau_start", "gumbel_anneal_updates", "gumbel_straight_through"), ("elbo-gumbel",)
    ),
}


@dataclass
class LatentAlignmentConfig(FairseqDataclass):
    objective: str = option(
        "elbo-enum",
        "objective; variational attention, by the variational bound (ELBO), is elbo-enum and other elbo-...",
    )
    num_samples: Optional[int] = option(
        None, "samples per word of hard-reinforce, elbo-reinforce, elbo-gumbel, dirichlet (1) and wake-sleep (5)"
    )
    baseline: str = option(
        "soft",
        "subtracted from the reward of the reinforce objectives: soft (attention), none, or average (moving average; a "
        "resumed training restarts it)",
    )
    kl_weight: float = option(1.0, "factor of KL(q || p)")
    kl_warmup_updates: int = option(0, "number of updates over which the factor of the KL rises from 0 to --kl-weight")
    exact_positions: int = option(
        4,
        "elbo-sum-and-sample: number of positions summed exactly (the most probable under q); one sample estimates "
        "the rest",
    )
    control_variates: bool = option(
        False,
        "wake-sleep: subtract b_k and 1 / K from the weights of log p(z_k) and log q(z_k), which lowers the variance "
        "of the gradient",
    )
    gumbel_tau: float = option(0.1, "elbo-gumbel: temperature of the relaxed samples")
    gumbel_tau_start: Optional[float] = option(
        None, "elbo-gumbel: initial temperature, annealed exponentially to --gumbel-tau over --gumbel-anneal-updates"
    )
    gumbel_anneal_updates: int = option(10000, "elbo-gumbel: number of updates of the annealing")
    gumbel_straight_through: bool = option(
        False, "elbo-gumbel: one-hot samples in the forward pass, gradients of the relaxed samples"
    )
    soft_updates: int = option(
        0,
        "number of updates with the objective soft at the start (the posterior learns the prior); dirichlet does not "
        "learn without them",
    )
    label_smoothing: float = option(0.0, "epsilon for label smoothing, applied to every log p(y|z)")
    sentence_avg: bool = II("optimization.sentence_avg")


_OFFERED: Dict[str, Option] = {}


def _offer() -> None:
    """Adds the options that objectives have of their own to the criterion's."""
    new = {name: own for name, own in objective_options().items() if name not in _OFFERED}
    add_options(LatentAlignmentConfig, new, "criterion", CRITERION_DATACLASS_REGISTRY)
    _OFFERED.update(new)


_offer()
follow(_offer)


def check_config(cfg: Any) -> None:
    """Checks the values of a ``LatentAlignmentConfig``.

    Raises:
        OptionError: an option has a wrong value
    """
    if cfg.objective not in OBJECTIVES:
        raise OptionError(f"--objective {cfg.objective}: unknown; {choices(', '.join(OBJECTIVES))}")
    OBJECTIVES[cfg.objective].configure(cfg)
    if cfg.baseline not in BASELINES:
        raise OptionError(f"--baseline {cfg.baseline}: unknown; choose from {', '.join(BASELINES)}")
    samples = cfg.num_samples is None or 1 <= cfg.num_samples <= MOST_SAMPLES
    need(samples, cfg, "num_samples", f"at least 1 and at most {MOST_SAMPLES}")
    if cfg.control_variates:
        only = f"False with --objective {cfg.objective}; only wake-sleep has control variates"
        need(cfg.objective == "wake-sleep", cfg, "control_variates", only)
        # of one sample all weights are 1, and their differences 0: neither prior nor posterior would be trained
        need(cfg.num_samples is None or cfg.num_samples >= 2, cfg, "num_samples", "at least 2 with --control-variates")
    need(cfg.exact_positions >= 1, cfg, "exact_positions", "at least 1")
    need(cfg.gumbel_tau > 0, cfg, "gumbel_tau", "above 0")
    need(cfg.gumbel_tau_start is None or cfg.gumbel_tau_start > 0, cfg, "gumbel_tau_start", "above 0")
    need(cfg.gumbel_anneal_updates >= 1, cfg, "gumbel_anneal_updates", "at least 1")
    need(cfg.kl_weight >= 0, cfg, "kl_weight", "0 or more")
    need(cfg.kl_warmup_updates >= 0, cfg, "kl_warmup_updates", "0 or more")
    need(cfg.soft_updates >= 0, cfg, "soft_updates", "0 or more")
    need(0 <= cfg.label_smoothing < 1, cfg, "label_smoothing", "at least 0 and less than 1")


def check_read(cfg: Mapping[str, Any]) -> None:
    """Checks that a training reads the options that are given. Checkpoints may have others.

    Args:
        cfg: the options of the criterion

    Raises:
        OptionError: an option is given and has no effect
    """
    objective, own = cfg["objective"], objective_options()
    if objective not in OBJECTIVES or OBJECTIVES[objective].function.__module__.split(".")[0] != __name__.split(".")[0]:
        return  # another package's objective may read all
    read_by = {**READ_BY, **{name: tuple(having(name)) for name in own}}
    defaults = LatentAlignmentConfig()
    for name, objectives in read_by.items():
        if objective not in objectives and name in cfg and cfg[name] != getattr(defaults, name):
            raise OptionError(
                f"{flag(name)} {cfg[name]}: --objective {objective} does not read it; leave it out, or choose "
                f"{' or '.join(objectives)}"
            )
    if cfg["gumbel_tau_start"] is None and cfg["gumbel_anneal_updates"] != defaults.gumbel_anneal_updates:
        raise OptionError(
            f"--gumbel-anneal-updates {cfg['gumbel_anneal_updates']}: nothing is annealed without --gumbel-tau-start; "
            "give both or neither"
        )
