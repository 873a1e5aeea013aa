"""``--criterion guided_alignment``: cross-entropy of the words, and attention that is taught word alignments.

With a_tj the attention of target word t, divided by its sum over the source, and g_tj = 1/n_t where t is linked to j
(n_t: the number of its links), 0 elsewhere:

    loss = sum_t -log p(y_t) + weight * sum_t D(g_t, a_t)

    cross-entropy   D = -sum_j g_tj log a_tj
    squared         D = 1/2 sum_j (a_tj - g_tj)^2

(Liu et al. 2016, "Neural Machine Translation with Supervised Attention", compares both; Chen et al. 2016, "Guided
Alignment Training for Topic-Aware Neural Machine Translation", and Mi et al. 2016, "Supervised Attentions for Neural
Machine Translation", are the same idea.) The second sum goes over the target words that have links; a sentence without
any trains its words only. Both sums are divided by the batch's words (with ``--sentence-avg`` its sentences).

log a is continued by its tangent below a = 1e-6 (in float16 2^-8), so that loss and gradient are finite where a weight
is zero: a word whose only link has none costs -log(1e-6) + 1 = 14.8 nats. An exact zero of a sparse normaliser passes
no gradient back to its score, by the normaliser's own derivative; ``squared`` still tells the positive weights beside
it apart.

Alignments come from ``fairseq-preprocess --align-suffix`` and ``fairseq-train --load-alignments``, in subwords (see
``analysis.alignment.subword_links``). Any architecture that returns its attention in training will do; one
of the ``lstm_latent`` family needs no posterior network for it (``--latent-posterior False``).

What is logged beside nll_loss and ppl:

    loss                training: as above, bits per word; validation: of the words alone, so that it does not change
                        with the weight and ``checkpoint_best.pt`` is the best translator
    alignment_loss      D, mean over the target words that have links; nats for cross-entropy
    alignment_accuracy  per cent of these words whose greatest weight is on one of their links
    alignment_weight    training: the weight in force, mean over the sentences
"""

from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from fairseq.logging import metrics
from torch import Tensor

from ..errors import OptionError
from ..options import need, option
from .alignment_terms import LOSSES, Alignment, alignment_terms, links_matrix
from .logged_sums import total
from .updates import Updates, call_before

__all__ = ["GuidedAlignmentConfig", "GuidedAlignmentCriterion"]


@dataclass
class GuidedAlignmentConfig(LabelSmoothedCrossEntropyCriterionConfig):
    alignment_weight: float = option(
        0.5, "weight of the alignment term; 0 measures the attention against the alignments without teaching it"
    )
    alignment_loss: str = option("cross-entropy", f"one of {', '.join(LOSSES)}; squared suits sparse normalisers")
    alignment_anneal_updates: int = option(
        0, "updates in which the weight goes linearly to --alignment-weight-end (0: it stays)"
    )
    alignment_weight_end: Optional[float] = option(None, "weight after --alignment-anneal-updates (default: 0)")


@register_criterion("guided_alignment", dataclass=GuidedAlignmentConfig)
class GuidedAlignmentCriterion(LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy and supervised attention, for every model that returns its attention.

    Raises:
        OptionError: options with wrong values, no alignments in the data, or a model that returns no attention
    """

    def __init__(self, cfg: GuidedAlignmentConfig, task: Any):
        super().__init__(
            task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, report_accuracy=cfg.report_accuracy
        )
        _check(cfg, task)
        self.cfg = cfg
        self.updates = Updates(task)
        call_before(task, "begin_epoch", self._check_data)

    @property
    def alignment_weight(self) -> float:
        """The weight of the alignment term at the present update."""
        start, updates = self.cfg.alignment_weight, self.cfg.alignment_anneal_updates
        if not updates:
            return start
        end = self.cfg.alignment_weight_end or 0.0
        return start + (end - start) * min(1.0, self.updates.number / updates)

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Loss, sample size and the sums to log of one batch."""
        output = model(**sample["net_input"])
        loss, nll_loss = self.compute_loss(model, output, sample, reduce=reduce)
        target = sample["target"]
        sample_size = target.size(0) if self.sentence_avg else sample["ntokens"]
        weight = self.alignment_weight if self.training else 0.0
        with torch.set_grad_enabled(torch.is_grad_enabled() and weight != 0):
            alignment = self._alignment(model, output, sample)
        if weight:
            # Without reduction the losses of words are a column.
            loss = loss + weight * (alignment.losses.sum() if reduce else alignment.losses.reshape(loss.shape))
        # The same entries in every batch, with links or without: workers add them up in one tensor.
        sums = {
            "loss": loss.detach(),
            "nll_loss": nll_loss.detach(),
            "ntokens": sample["ntokens"],
            "nsentences": target.size(0),
            "sample_size": sample_size,
            "alignment_loss": alignment.losses.detach().sum(),
            "aligned_words": alignment.aligned.sum(),
            "aligned_correct": alignment.correct.sum(),
        }
        if self.training:
            sums["alignment_weight"] = weight * target.size(0)
        if self.report_accuracy:
            sums["n_correct"], sums["total"] = self.compute_accuracy(model, output, sample)
        return loss, sample_size, sums

    def _alignment(self, model: Any, output: Any, sample: Dict[str, Any]) -> Alignment:
        weights = _attention(output)
        target, source = sample["target"], sample["net_input"]["src_tokens"]
        if weights is None:
            raise OptionError(
                f"--criterion guided_alignment: {_name(model)} returns no attention"
                f"{' in training' if self.training else ''}; choose an architecture that does, such as lstm_soft, "
                "with --decoder-attention True"
            )
        if weights.shape != (*target.shape, source.size(1)):
            raise OptionError(
                f"--criterion guided_alignment: {_name(model)} returns attention of the shape {tuple(weights.shape)}, "
                f"not {(*target.shape, source.size(1))} (sentences, target words, source words); choose an "
                "architecture that does, such as lstm_soft"
            )
        links = links_matrix(sample.get("alignments"), weights)
        first = self.ignore_prefix_size
        return alignment_terms(weights[:, first:], links[:, first:], self.cfg.alignment_loss)

    def _check_data(self, *unused: Any, **unused_too: Any) -> None:
        """Raises OptionError where the training data came without alignments, or with those of another corpus.

        fairseq passes over a missing file of alignments without a word.
        """
        config = self.task.cfg
        split = getattr(config, "train_subset", "train")
        dataset: Any = getattr(self.task, "datasets", {}).get(split)
        if not hasattr(dataset, "align_dataset"):
            return
        languages = f"{getattr(config, 'source_lang', None)}-{getattr(config, 'target_lang', None)}"
        prepare = (
            "prepare the data by fairseq-preprocess --align-suffix SUFFIX, with the --source-lang and --target-lang "
            "of the training"
        )
        if dataset.align_dataset is None:
            raise OptionError(
                f"--load-alignments: {getattr(config, 'data', None)} has no alignments of the split {split} "
                f"({split}.align.{languages}.idx); {prepare}"
            )
        if len(dataset.align_dataset) != len(dataset):
            raise OptionError(
                f"--load-alignments: {getattr(config, 'data', None)} has {len(dataset.align_dataset)} alignments for "
                f"the {len(dataset)} sentences of the split {split}; {prepare}, one line for each sentence"
            )

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Logs what the module's text lists."""
        super().reduce_metrics(logging_outputs)
        words, sentences = total(logging_outputs, "aligned_words"), total(logging_outputs, "nsentences")
        if words:
            metrics.log_scalar("alignment_loss", total(logging_outputs, "alignment_loss") / words, words, round=4)
            metrics.log_scalar(
                "alignment_accuracy", 100.0 * total(logging_outputs, "aligned_correct") / words, words, round=2
            )
        if sentences and any("alignment_weight" in log for log in logging_outputs):
            metrics.log_scalar(
                "alignment_weight", total(logging_outputs, "alignment_weight") / sentences, sentences, round=4
            )


def _check(cfg: Any, task: Any) -> None:
    if cfg.alignment_loss not in LOSSES:
        raise OptionError(f"--alignment-loss {cfg.alignment_loss}: unknown; choose from {', '.join(LOSSES)}")
    need(cfg.alignment_weight >= 0, cfg, "alignment_weight", "0 or more")
    need(cfg.alignment_anneal_updates >= 0, cfg, "alignment_anneal_updates", "0 or more")
    need(cfg.alignment_weight_end is None or cfg.alignment_weight_end >= 0, cfg, "alignment_weight_end", "0 or more")
    need(0 <= cfg.label_smoothing < 1, cfg, "label_smoothing", "at least 0 and less than 1")
    if cfg.alignment_weight_end is not None and not cfg.alignment_anneal_updates:
        raise OptionError(
            f"--alignment-weight-end {cfg.alignment_weight_end}: needs --alignment-anneal-updates, the number of "
            "updates after which it is reached"
        )
    if not getattr(getattr(task, "cfg", None), "load_alignments", False):
        raise OptionError(
            "--criterion guided_alignment: needs word alignments, and the task loads none; make them by "
            "fairseq-preprocess --align-suffix SUFFIX and train with fairseq-train --load-alignments"
        )


def _attention(output: Any) -> Optional[Tensor]:
    """The weights in what a model returned: in a dictionary, in a list of one entry, or as they are."""
    extra = output[1] if isinstance(output, (tuple, list)) and len(output) > 1 else None
    weights = extra.get("attn") if isinstance(extra, dict) else extra
    if isinstance(weights, (tuple, list)):
        weights = weights[0] if len(weights) else None
    return weights if isinstance(weights, Tensor) else None


def _name(model: Any) -> str:
    while hasattr(model, "module"):  # inside a data-parallel wrapper
        model = model.module
    return type(model).__name__
