"""``--criterion latent_alignment``: variational attention, and the other objectives of latent alignment models.

``--objective`` chooses. Those whose names begin with ``elbo`` maximise the variational bound (ELBO).

The formulas are in :mod:`fairseq_attn_plugin.criterions.objectives`. Logged metrics, in training and validation:

    loss                 training: the objective, bits per word (per sentence with --sentence-avg); validation: nll_loss
    nll_loss, ppl        the prediction of the model: the exact marginal (with --latent-topk the marginal over the K
                         most probable alignments); for soft and dirichlet the prediction from the mean context.
                         Training logs it only if the objective computes it.
    marginal_ppl         the exact marginal: in validation always, in training if all alignments are computed
    soft_ppl             validation: the prediction from the prior's mean context
    topk_ppl             validation with --latent-topk
    bound                nats per word, without the KL weight: the negative ELBO of objectives with q, and the
                         minimised loss of the others. Validation enumerates all alignments (dirichlet: one sample),
                         training logs the estimate of the objective, during --soft-updates that of the mean context
    reconstruction       -E_q log p(y|z) in nats; some papers report its exponential, reconstruction_ppl, as perplexity
    kl                   KL(q || p), nats
    prior_entropy, posterior_entropy   entropies of p and q, nats
    prior_accuracy       percentage of words that are the most probable word under the prior's mixture (in the training
                         of sampling objectives: under its mean context, if that is the baseline)
    posterior_accuracy   the same under the mixture of q (in the training of sampling objectives: of its samples)
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from ..added_options import keep_adding
from ..attention.part_registry import choices
from ..errors import OptionError
from ..modules.latent.latent_alignments import LatentAlignments
from ..ops.precision import precision_of, products_in
from ..options import at_least, flag, need, need_one_of, option
from .logged_sums import Updates, log_sums
from .objectives import (
    OBJECTIVES,
    Batch,
    MovingAverage,
    Settings,
    Terms,
    entropy,
    evaluate,
    having,
    objective_options,
)
from .objectives.enumerated import soft
from .objectives.objective import kl_divergence
from .vocabulary_losses import unwrapped

MOST_SAMPLES = 1000  # more is a slip, and takes hours for a batch
# Which of the package's objectives read an option of the criterion that not all of them read.
REINFORCE = ("hard-reinforce", "elbo-reinforce")
WITH_KL = ("elbo-enum", "sparse-elbo", "elbo-reinforce", "elbo-gumbel", "elbo-sum-and-sample", "dirichlet")
READ_BY = {
    "kl_weight": WITH_KL,
    "kl_warmup_updates": WITH_KL,
    "control_variates": ("wake-sleep",),
    "num_samples": (*REINFORCE, "elbo-gumbel", "dirichlet", "wake-sleep"),
    "baseline": REINFORCE,
    "exact_positions": ("elbo-sum-and-sample",),
    "gumbel_tau": ("elbo-gumbel",),
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
    soft_updates: int = option(
        0,
        "number of updates with the objective soft at the start (the posterior learns the prior); dirichlet does not "
        "learn without them",
    )
    label_smoothing: float = option(0.0, "epsilon for label smoothing, applied to every log p(y|z)")
    sentence_avg: bool = II("optimization.sentence_avg")


keep_adding(LatentAlignmentConfig, objective_options, "criterion", CRITERION_DATACLASS_REGISTRY)


def check_read(cfg: Mapping[str, Any]) -> None:
    """Raises OptionError if an option of the criterion is given and has no effect. Checkpoints may have others."""
    objective, own = cfg["objective"], objective_options()
    if objective not in OBJECTIVES or OBJECTIVES[objective].function.__module__.split(".")[0] != __name__.split(".")[0]:
        return  # another package's objective may read all
    read_by = {**READ_BY, **{name: tuple(having(name)) for name in own}}
    defaults = LatentAlignmentConfig()
    if objective == "soft" and cfg["soft_updates"]:
        raise OptionError(
            f"--soft-updates {cfg['soft_updates']}: has no effect with --objective soft, with which all updates are "
            "soft; leave it out"
        )
    for name, objectives in read_by.items():
        if objective not in objectives and name in cfg and cfg[name] != getattr(defaults, name):
            raise OptionError(
                f"{flag(name)} {cfg[name]}: --objective {objective} does not read it; leave it out, or choose "
                f"{' or '.join(objectives)}"
            )


@register_criterion("latent_alignment", dataclass=LatentAlignmentConfig)
class LatentAlignmentCriterion(FairseqCriterion):
    """Variational attention and its relatives: trains models of the ``lstm_latent`` family.

    Raises:
        OptionError: an option has a wrong value, or the objective does not suit the model
    """

    def __init__(self, cfg: LatentAlignmentConfig, task: Any):
        super().__init__(task)
        if cfg.objective not in OBJECTIVES:
            raise OptionError(f"--objective {cfg.objective}: is unknown; {choices(', '.join(OBJECTIVES))}")
        OBJECTIVES[cfg.objective].configure(cfg)
        need_one_of(cfg, baseline=("soft", "none", "average"))
        samples = cfg.num_samples is None or 1 <= cfg.num_samples <= MOST_SAMPLES
        need(samples, cfg, "num_samples", f"at least 1 and at most {MOST_SAMPLES}")
        if cfg.control_variates:
            # of one sample all weights are 1, and their differences 0: neither prior nor posterior would be trained
            several = cfg.num_samples is None or cfg.num_samples >= 2
            need(several, cfg, "num_samples", "at least 2 with --control-variates")
        at_least(cfg, exact_positions=1)
        need(cfg.gumbel_tau > 0, cfg, "gumbel_tau", "above 0")
        for name in ("kl_weight", "kl_warmup_updates", "soft_updates"):
            need(getattr(cfg, name) >= 0, cfg, name, "0 or more")
        need(0 <= cfg.label_smoothing < 1, cfg, "label_smoothing", "at least 0 and less than 1")
        self.cfg = cfg
        self.average = MovingAverage()
        self.updates = Updates(task)

    @classmethod
    def check_training(cls, cfg: Any) -> None:
        """Raises OptionError for options that have no effect; ``cfg``: all sections of a configuration."""
        check_read(cfg["criterion"])

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Returns the loss, the sample size and the logged sums of a batch."""
        target = sample["target"]
        by_sentence = self.cfg.sentence_avg and self.training  # the validation loss is nll_loss, per word
        sample_size = target.size(0) if by_sentence else sample["ntokens"]
        sums: Dict[str, Any] = {"ntokens": sample["ntokens"], "nsentences": target.size(0), "sample_size": sample_size}
        latent = self._latent(model, sample)
        batch = Batch(latent, target, self.padding_idx)
        if self.training:
            with products_in(precision_of(unwrapped(model))):
                loss, further = self._train(batch)
        else:
            loss, further = self._validate(model, batch)
        with torch.no_grad():
            further["prior_entropy"] = batch.sum(entropy(latent.log_prior))
            if latent.log_posterior is not None:
                further["posterior_entropy"] = batch.sum(entropy(latent.log_posterior))
        sums["loss"] = loss.detach()
        sums.update({name: value for name, value in further.items() if value is not None})
        return loss, sample_size, sums

    def _latent(self, model: Any, sample: Dict[str, Any]) -> LatentAlignments:
        objective, inner = self.cfg.objective, unwrapped(model)
        chosen = OBJECTIVES[objective]
        if not hasattr(inner, "alignments"):
            raise OptionError(
                f"--criterion latent_alignment: needs a latent alignment model (--arch lstm_latent); "
                f"{type(inner).__name__} is trained by --criterion label_smoothed_cross_entropy"
            )
        if chosen.chain and not inner.first_order:
            raise OptionError(
                f"--objective {objective}: needs alignments that depend on each other; add --arch "
                "lstm_latent_first_order, or choose --objective marginal"
            )
        if inner.first_order and not chosen.chain:
            raise OptionError(
                f"--objective {objective}: takes alignments as independent, and those of this model are not; choose "
                "--objective first-order, or --arch lstm_latent"
            )
        if chosen.posterior and inner.posterior is None:
            raise OptionError(
                f"--objective {objective}: needs a posterior network, and the model has none (--latent-posterior "
                "False); train with --latent-posterior True, or choose one without q, such as marginal"
            )
        if chosen.support == "prior" and not inner.decoder.attention.sparse:
            raise OptionError(
                f"--objective {objective}: sums over the positions with a weight above zero, and all weights of this "
                "model are; add --attention-normalizer sparsemax or entmax15, or choose --objective marginal"
            )
        if chosen.support == "posterior" and not inner.posterior.normalize.sparse:
            raise OptionError(
                f"--objective {objective}: sums over the positions to which q gives a probability above zero, and "
                f"--posterior-normalizer {inner.posterior.normalize.name} gives one to all; choose sparsemax or "
                "entmax15, or --objective elbo-enum"
            )
        if self.training:
            inner.decoder.trained_soft.fill_(chosen.mean_context)
        net_input = {name: value for name, value in sample["net_input"].items() if value is not None}
        return model(
            **net_input,
            target=sample["target"],
            posterior=chosen.posterior,
            # With enumeration pair by pair the LSTMs of the posterior take most of the memory and little of the time.
            recompute=chosen.recompute and not inner.decoder.is_linear,
            apart=self.training and self.updates.number < self.cfg.soft_updates,
        )

    def _settings(self, updates: int) -> Settings:
        cfg = self.cfg
        samples = cfg.num_samples or OBJECTIVES[cfg.objective].samples
        warmup = min(1.0, (updates + 1) / cfg.kl_warmup_updates) if cfg.kl_warmup_updates else 1.0
        return Settings(
            samples,
            cfg.baseline,
            cfg.kl_weight * warmup,
            cfg.exact_positions,
            cfg.gumbel_tau,
            cfg.label_smoothing,
            cfg.control_variates,
            OBJECTIVES[cfg.objective].configure(cfg),
        )

    def _train(self, batch: Batch) -> Tuple[Tensor, Dict[str, Any]]:
        updates, objective = self.updates.number, self.cfg.objective
        settings = self._settings(max(0, updates - self.cfg.soft_updates))
        warming = updates < self.cfg.soft_updates
        terms = self._warm_start(batch, settings) if warming else OBJECTIVES[objective](batch, settings, self.average)
        bound = terms.reconstruction if terms.kl is None or warming else terms.reconstruction + terms.kl
        prediction = terms.marginal
        if objective == "soft" or (OBJECTIVES[objective].mean_context and warming):
            prediction = terms.reconstruction
        return terms.loss, {
            "bound": bound.detach(),
            "reconstruction": terms.reconstruction.detach(),
            "kl": terms.kl,
            "nll_loss": prediction,
            "marginal": terms.marginal,
            "prior_correct": terms.prior_correct,
            "posterior_correct": terms.posterior_correct,
        }

    def _warm_start(self, batch: Batch, settings: Settings) -> Terms:
        """The objective ``soft`` trains the model. Separately, the posterior learns the prior as its starting point."""
        terms = soft(batch, settings, self.average)
        if batch.latent.log_posterior is None:
            return terms
        frozen = batch.latent.log_prior.detach()
        kl = batch.sum(kl_divergence(batch.log_posterior, frozen))
        return terms._replace(loss=terms.loss + kl, kl=kl.detach())

    def _validate(self, model: Any, batch: Batch) -> Tuple[Tensor, Dict[str, Any]]:
        objective, decoder = OBJECTIVES[self.cfg.objective], unwrapped(model).decoder
        values = evaluate(batch, decoder.topk)
        exact = {"soft": values.soft, "marginal": values.marginal, "hard": values.hard, "elbo": values.reconstruction}
        predicts_soft = decoder.predicts_soft
        marginal = values.marginal if values.topk is None else values.topk
        loss = values.soft if predicts_soft else marginal
        result = {
            "nll_loss": loss,
            "marginal": values.marginal,
            "soft": values.soft,
            "topk": values.topk,
            "prior_correct": values.soft_correct if predicts_soft else values.marginal_correct,
            "reconstruction": exact.get(objective.validation),
            "kl": values.kl,
            "posterior_correct": values.posterior_correct,
        }
        if objective.validation == "own":
            with torch.no_grad():
                terms = objective(batch, self._settings(0), self.average)
            result["reconstruction"], result["kl"] = terms.reconstruction, terms.kl
            result["posterior_correct"] = terms.posterior_correct
            if objective.chain:
                loss = result["nll_loss"] = result["marginal"] = terms.marginal
                result["prior_correct"] = terms.prior_correct
        result["bound"] = result["reconstruction"] if result["kl"] is None else result["reconstruction"] + result["kl"]
        return loss, result

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Logs the metrics of the module's docstring."""
        log_sums(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
