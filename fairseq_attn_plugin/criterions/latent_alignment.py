"""``--criterion latent_alignment``: every objective of latent alignment models, chosen by ``--objective``.

The formulas are in :mod:`fairseq_attn_plugin.criterions.objectives`. What is logged, for training and validation:

    loss                 training: the objective, bits per word (per sentence with --sentence-avg); validation: nll_loss
    nll_loss, ppl        the model's own prediction: the exact marginal (with --latent-topk that of the K most probable
                         alignments), or for soft and dirichlet the mean context's. Absent in training where an
                         objective does not compute it.
    marginal_ppl         the exact marginal: always at validation, in training where all alignments are computed
    soft_ppl             validation: the prediction from the prior's mean context
    topk_ppl             validation with --latent-topk
    bound                nats per word, without the KL weight: the ELBO's negative for objectives with q, and for the
                         others what the objective minimises. At validation by enumeration (dirichlet: one sample), in
                         training as the objective estimates it; with --soft-updates first the mean context's
    reconstruction       -E_q log p(y|z) in nats; reconstruction_ppl, its exp, is what some papers call perplexity
    kl                   KL(q || p), nats
    prior_entropy, posterior_entropy   of p and q, nats
    prior_accuracy       per cent of words whose probability is highest under the prior's mixture (in training of
                         sampling objectives: under its mean context, where that is the baseline)
    posterior_accuracy   the same under q's mixture (in training of sampling objectives: of its samples)
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.dataclass import FairseqDataclass
from omegaconf import II
from torch import Tensor

from ..errors import OptionError
from ..modules.latent_decoder import LatentAlignments
from ..options import need, option
from .logged_sums import log_sums
from .objectives import (
    BASELINES,
    NEEDS_POSTERIOR,
    OBJECTIVES,
    Batch,
    MovingAverage,
    Settings,
    Terms,
    entropy,
    evaluate,
)

__all__ = ["LatentAlignmentConfig", "LatentAlignmentCriterion"]


@dataclass
class LatentAlignmentConfig(FairseqDataclass):
    objective: str = option("elbo-enum", f"one of {', '.join(OBJECTIVES)}")
    num_samples: Optional[int] = option(
        None, "samples per word of hard-reinforce, elbo-reinforce, elbo-gumbel, dirichlet (1) and wake-sleep (5)"
    )
    baseline: str = option(
        "soft",
        "subtracted from the reward of the reinforce objectives: soft (attention), none, or average (moving; it starts "
        "anew when a training is resumed)",
    )
    kl_weight: float = option(1.0, "factor of KL(q || p)")
    kl_warmup_updates: int = option(0, "updates in which the factor of the KL rises from 0 to --kl-weight")
    exact_positions: int = option(
        4, "elbo-sum-and-sample: positions summed exactly, the most probable under q; one sample stands for the rest"
    )
    gumbel_tau: float = option(0.1, "elbo-gumbel: temperature of the relaxed samples")
    gumbel_tau_start: Optional[float] = option(
        None, "elbo-gumbel: temperature at first, annealed exponentially to --gumbel-tau in --gumbel-anneal-updates"
    )
    gumbel_anneal_updates: int = option(10000, "elbo-gumbel: updates of the annealing")
    gumbel_straight_through: bool = option(
        False, "elbo-gumbel: one-hot samples forward, the relaxed ones' gradient backward"
    )
    soft_updates: int = option(
        0,
        "first train with objective soft for so many updates (the posterior by its KL to the prior); dirichlet does "
        "not get off the ground without it",
    )
    label_smoothing: float = option(0.0, "epsilon of label smoothing, applied to every log p(y|z)")
    sentence_avg: bool = II("optimization.sentence_avg")


def _check(cfg: Any) -> None:
    if cfg.objective not in OBJECTIVES:
        raise OptionError(f"--objective {cfg.objective}: unknown; choose from {', '.join(OBJECTIVES)}")
    if cfg.baseline not in BASELINES:
        raise OptionError(f"--baseline {cfg.baseline}: unknown; choose from {', '.join(BASELINES)}")
    need(cfg.num_samples is None or cfg.num_samples >= 1, cfg, "num_samples", "at least 1")
    need(cfg.exact_positions >= 1, cfg, "exact_positions", "at least 1")
    need(cfg.gumbel_tau > 0, cfg, "gumbel_tau", "above 0")
    need(cfg.gumbel_tau_start is None or cfg.gumbel_tau_start > 0, cfg, "gumbel_tau_start", "above 0")
    need(cfg.gumbel_anneal_updates >= 1, cfg, "gumbel_anneal_updates", "at least 1")
    need(cfg.kl_weight >= 0, cfg, "kl_weight", "0 or more")
    need(cfg.kl_warmup_updates >= 0, cfg, "kl_warmup_updates", "0 or more")
    need(cfg.soft_updates >= 0, cfg, "soft_updates", "0 or more")
    need(0 <= cfg.label_smoothing < 1, cfg, "label_smoothing", "at least 0 and less than 1")


@register_criterion("latent_alignment", dataclass=LatentAlignmentConfig)
class LatentAlignmentCriterion(FairseqCriterion):
    """Trains models of the ``lstm_latent`` family; with ``--objective soft`` any encoder-decoder.

    Raises:
        OptionError: options with wrong values, or an objective that the model cannot be trained with
    """

    def __init__(self, cfg: LatentAlignmentConfig, task: Any):
        super().__init__(task)
        _check(cfg)
        self.cfg = cfg
        self.average = MovingAverage()

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss, sample size and the sums to log of one batch."""
        target = sample["target"]
        sample_size = target.size(0) if self.cfg.sentence_avg else sample["ntokens"]
        sums: Dict[str, Any] = {
            "ntokens": sample["ntokens"],
            "nsentences": target.size(0),
            "sample_size": sample_size,
        }
        if not hasattr(_inner(model), "alignments"):
            loss, further = self._plain(model, sample)
        else:
            latent = self._latent(model, sample)
            batch = Batch(latent, target, self.padding_idx)
            if self.training:
                loss, further = self._train(model, batch)
            else:
                loss, further = self._validate(model, batch)
            with torch.no_grad():
                further["prior_entropy"] = batch.sum(entropy(latent.log_prior))
                if latent.log_posterior is not None:
                    further["posterior_entropy"] = batch.sum(entropy(latent.log_posterior))
        if not self.training and self.cfg.sentence_avg:
            sums["sample_size"] = sample_size = sample["ntokens"]  # validation's loss is nll_loss, per word
        sums["loss"] = loss.detach()
        sums.update({name: value for name, value in further.items() if value is not None})
        return loss, sample_size, sums

    def _latent(self, model: Any, sample: Dict[str, Any]) -> LatentAlignments:
        objective, inner = self.cfg.objective, _inner(model)
        if objective in NEEDS_POSTERIOR and inner.posterior is None:
            raise OptionError(
                f"--objective {objective}: needs a posterior network, and the model has none (--latent-posterior "
                "False); train with --latent-posterior True, or choose soft, marginal, hard-enum or hard-reinforce"
            )
        if self.training:
            inner.decoder.trained_soft.fill_(objective in ("soft", "dirichlet"))
        net_input = {name: value for name, value in sample["net_input"].items() if value is not None}
        return model(
            **net_input,
            target=sample["target"],
            posterior=objective in NEEDS_POSTERIOR,
            # Where all alignments are enumerated, the posterior's LSTMs are most of the memory and little of the time.
            recompute=objective == "elbo-enum",
            apart=self.training and inner.num_updates < self.cfg.soft_updates,
        )

    def _settings(self, updates: int) -> Settings:
        cfg = self.cfg
        samples = cfg.num_samples or (5 if cfg.objective == "wake-sleep" else 1)
        warmup = min(1.0, (updates + 1) / cfg.kl_warmup_updates) if cfg.kl_warmup_updates else 1.0
        tau = cfg.gumbel_tau
        if cfg.gumbel_tau_start is not None:
            progress = min(1.0, updates / cfg.gumbel_anneal_updates)
            tau = cfg.gumbel_tau_start ** (1 - progress) * tau**progress
        return Settings(
            samples,
            cfg.baseline,
            cfg.kl_weight * warmup,
            cfg.exact_positions,
            tau,
            cfg.gumbel_straight_through,
            cfg.label_smoothing,
        )

    def _train(self, model: Any, batch: Batch) -> Tuple[Tensor, Dict[str, Any]]:
        updates, objective = _inner(model).num_updates, self.cfg.objective
        settings = self._settings(max(0, updates - self.cfg.soft_updates))
        warming = updates < self.cfg.soft_updates
        terms = self._warm_start(batch, settings) if warming else OBJECTIVES[objective](batch, settings, self.average)
        bound = terms.reconstruction if terms.kl is None or warming else terms.reconstruction + terms.kl
        prediction = terms.marginal
        if objective == "soft" or (objective == "dirichlet" and warming):
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
        """Soft attention trains the model, exactly as the objective ``soft`` would; apart from it the posterior learns
        the prior, so that it can take over from there."""
        terms = OBJECTIVES["soft"](batch, settings, self.average)
        if batch.latent.log_posterior is None:
            return terms
        frozen = batch.latent.log_prior.detach()
        kl = batch.sum((batch.log_posterior.exp() * (batch.log_posterior - frozen)).sum(-1))
        return terms._replace(loss=terms.loss + kl, kl=kl.detach())

    def _validate(self, model: Any, batch: Batch) -> Tuple[Tensor, Dict[str, Any]]:
        objective, decoder = self.cfg.objective, _inner(model).decoder
        values = evaluate(batch, decoder.topk)
        predicts_soft = decoder.predicts_soft
        marginal = values.marginal if values.topk is None else values.topk
        loss = values.soft if predicts_soft else marginal
        result = {
            "nll_loss": loss,
            "marginal": values.marginal,
            "soft": values.soft,
            "topk": values.topk,
            "prior_correct": values.soft_correct if predicts_soft else values.marginal_correct,
            "kl": values.kl,
            "posterior_correct": values.posterior_correct,
        }
        if objective == "dirichlet":
            terms = OBJECTIVES[objective](batch, self._settings(0), self.average)
            result["reconstruction"], result["kl"] = terms.reconstruction, terms.kl
            result["posterior_correct"] = terms.posterior_correct
        elif objective in NEEDS_POSTERIOR:
            result["reconstruction"] = values.reconstruction
        else:
            exact = {"soft": values.soft, "marginal": values.marginal}
            result["reconstruction"] = exact.get(objective, values.hard)
        result["bound"] = result["reconstruction"] if result["kl"] is None else result["reconstruction"] + result["kl"]
        return loss, result

    def _plain(self, model: Any, sample: Dict[str, Any]) -> Tuple[Tensor, Dict[str, Any]]:
        """Ordinary cross-entropy for models without latent alignments."""
        if self.cfg.objective != "soft":
            raise OptionError(
                f"--objective {self.cfg.objective}: needs a latent alignment model (--arch lstm_latent); "
                f"{type(_inner(model)).__name__} can be trained with --objective soft"
            )
        output = model(**sample["net_input"])
        log_probs = model.get_normalized_probs(output, log_probs=True)
        target = model.get_targets(sample, output)
        real = target.ne(self.padding_idx)
        gold = log_probs.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        nll = -(gold * real).sum()
        loss, epsilon = nll, self.cfg.label_smoothing
        if epsilon and self.training:
            uniform = epsilon / (log_probs.size(-1) - 1)
            loss = (1 - epsilon - uniform) * nll - uniform * (log_probs.sum(-1) * real).sum()
        with torch.no_grad():
            correct = (log_probs.argmax(-1).eq(target) & real).sum()
        nll = nll.detach()
        return loss, {"nll_loss": nll, "soft": nll, "bound": nll, "reconstruction": nll, "prior_correct": correct}

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Logs what the module's text lists."""
        log_sums(logging_outputs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True


def _inner(model: Any) -> Any:
    """The model inside a data-parallel wrapper."""
    while not hasattr(model, "decoder") and hasattr(model, "module"):
        model = model.module
    return model
