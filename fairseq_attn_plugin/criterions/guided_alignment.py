"""``--criterion guided_alignment``: label-smoothed cross-entropy, with attention that is trained on word alignments.

With D of ``--alignment-loss``, a the attention and g the links of a target word, the loss is

    loss = sum_t -log p(y_t) + weight * sum_t D(g_t, a_t)

(Liu et al. 2016, "Neural Machine Translation with Supervised Attention"; Chen et al. 2016, "Guided Alignment Training
for Topic-Aware Neural Machine Translation", and Mi et al. 2016, "Supervised Attentions for Neural Machine Translation",
have similar losses.) The second sum runs over the target words with links. A sentence without links has the first sum
only. Both sums are divided by the number of words of the batch, or by the number of sentences with ``--sentence-avg``.

Let a_tj be the attention of target word t, divided by its sum over the source. Let g_tj be 1 / n_t if t is linked to j,
where n_t is the number of links of t, and 0 otherwise. The loss of a word is

    cross-entropy   D = -sum_j g_tj log a_tj
    squared         D = 1/2 sum_j (a_tj - g_tj)^2

Below a = 1e-6 (2^-8 in float16) the tangent replaces log a, so that loss and gradient are finite where a weight is
zero: a word whose only link has the weight zero costs -log(1e-6) + 1 = 14.8 nats. An exact zero of a sparse normaliser
gives its score no gradient; ``squared`` still has one for the positive weights of the same row.

Alignments of subwords come from ``fairseq-preprocess --align-suffix`` and ``fairseq-train --load-alignments`` (see
``analysis.alignment.subword_links``). The architecture must return its attention in training. Models of the
``lstm_latent`` family do not need a posterior network for this criterion (``--latent-posterior False``).

Logged metrics, in addition to nll_loss and ppl:

    loss                training: the loss above, bits per word; validation: the first sum alone, so that it does not
                        depend on the weight, and ``checkpoint_best.pt`` is the best translation model
    alignment_loss      D, mean over the target words with links; nats for cross-entropy
    alignment_accuracy  percentage of these words whose largest weight is on one of their links
    alignment_weight    training: the current weight, mean over the sentences
"""

from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropyCriterion,
    LabelSmoothedCrossEntropyCriterionConfig,
)
from torch import Tensor

from ..errors import OptionError
from ..ops.precision import in_full
from ..options import need, need_one_of, option
from .logged_sums import Updates, least_weight, log_mean, total
from .vocabulary_losses import ask_for_loss, sums_losses, unwrapped

LOSSES = ("cross-entropy", "squared")


class Alignment(NamedTuple):
    """The attention of a batch compared with its word alignments."""

    losses: Tensor  # [B, T], D of the module's docstring; zero for words without links
    aligned: Tensor  # [B, T], whether a word has links
    correct: Tensor  # [B, T], whether the largest weight of a word is on one of its links


def links_matrix(links: Optional[Tensor], like: Tensor) -> Tensor:
    """The links of a batch as a matrix.

    Args:
        links: ``[L, 2]`` in fairseq's format: column j of the padded source, and b * T + t for word t of sentence b;
            None if no sentence has links
        like: attention ``[B, T, N]``

    Returns:
        ``[B, T, N]``, True on links
    """
    batch, steps, width = like.shape
    matrix = torch.zeros(batch * steps, width, dtype=torch.bool, device=like.device)
    if links is not None and len(links):
        matrix[links[:, 1], links[:, 0]] = True
    return matrix.view(batch, steps, width)


def alignment_terms(weights: Tensor, links: Tensor, loss: str = "cross-entropy") -> Alignment:
    """D(g, a) of every target word, by the formulas of the module's docstring.

    Args:
        weights: attention ``[B, T, N]``, non-negative, zero on padding; rows do not have to sum to one
        links: ``[B, T, N]``, True on links
        loss: ``cross-entropy`` or ``squared``

    Returns:
        the comparison; its losses are in at least float32
    """
    straight = least_weight(weights.dtype)
    full = in_full(weights)
    # The rows of a mechanism without normalisation may be nearly zero.
    a = full / full.sum(-1, keepdim=True).clamp(min=straight)
    count = links.sum(-1, keepdim=True)
    gold = links.to(a.dtype) / count.clamp(min=1)
    aligned = count.squeeze(-1) > 0
    if loss == "squared":
        losses = 0.5 * ((a - gold) ** 2).sum(-1) * aligned
    else:
        above = a.clamp(min=straight)  # the tangent of log a: value and slope are continuous, and finite at zero
        losses = -(gold * (above.log() + (a - above) / straight)).sum(-1)
    with torch.no_grad():
        correct = links.gather(-1, a.argmax(-1, keepdim=True)).squeeze(-1)
    return Alignment(losses, aligned, correct)


@dataclass
class GuidedAlignmentConfig(LabelSmoothedCrossEntropyCriterionConfig):
    alignment_weight: float = option(
        0.5, "weight of the alignment term; 0 compares the attention with the alignments and does not train it"
    )
    alignment_loss: str = option("cross-entropy", f"one of {', '.join(LOSSES)}; squared suits sparse normalisers")
    alignment_anneal_updates: int = option(
        0, "number of updates over which the weight falls linearly to 0 (0: constant weight)"
    )


@register_criterion("guided_alignment", dataclass=GuidedAlignmentConfig)
class GuidedAlignmentCriterion(LabelSmoothedCrossEntropyCriterion):
    """Label-smoothed cross-entropy and supervised attention, for every model that returns its attention.

    Raises:
        OptionError: an option has a wrong value, or the model returns no attention
    """

    def __init__(self, cfg: GuidedAlignmentConfig, task: Any):
        super().__init__(
            task, cfg.sentence_avg, cfg.label_smoothing, cfg.ignore_prefix_size, report_accuracy=cfg.report_accuracy
        )
        need_one_of(cfg, alignment_loss=LOSSES)
        need(cfg.alignment_weight >= 0, cfg, "alignment_weight", "0 or more")
        need(cfg.alignment_anneal_updates >= 0, cfg, "alignment_anneal_updates", "0 or more")
        need(0 <= cfg.label_smoothing < 1, cfg, "label_smoothing", "at least 0 and less than 1")
        if not getattr(getattr(task, "cfg", None), "load_alignments", False):
            raise OptionError(
                "--criterion guided_alignment: needs word alignments, and the task loads none; prepare them with "
                "fairseq-preprocess --align-suffix SUFFIX and train with fairseq-train --load-alignments"
            )
        self.cfg = cfg
        self.updates = Updates(task)

    @property
    def alignment_weight(self) -> float:
        """The weight of the alignment term at the current update."""
        start, updates = self.cfg.alignment_weight, self.cfg.alignment_anneal_updates
        return start * (1 - min(1.0, self.updates.number / updates)) if updates else start

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        """Returns the loss, the sample size and the logged sums of a batch."""
        asked = sample
        if reduce and not self.report_accuracy and sums_losses(model):
            asked = ask_for_loss(sample, self.padding_idx, self.eps, self.ignore_prefix_size)
        output = model(**asked["net_input"])
        loss, nll_loss = self.compute_loss(model, output, sample, reduce=reduce)
        target = sample["target"]
        sample_size = target.size(0) if self.sentence_avg else sample["ntokens"]
        weight = self.alignment_weight if self.training else 0.0
        with torch.set_grad_enabled(torch.is_grad_enabled() and weight != 0):
            alignment = self._alignment(model, output, sample)
        if weight:
            # Without reduction the losses of the words have the shape [B T, 1].
            loss = loss + weight * (alignment.losses.sum() if reduce else alignment.losses.reshape(loss.shape))
        # Every batch has the same entries, with or without links, because workers add them in one tensor.
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
        weights, name = _attention(output), type(unwrapped(model)).__name__
        target, source = sample["target"], sample["net_input"]["src_tokens"]
        if weights is None:
            raise OptionError(
                f"--criterion guided_alignment: {name} returns no attention"
                f"{' in training' if self.training else ''}; choose an architecture that does, such as lstm_soft, "
                "with --decoder-attention True"
            )
        if weights.shape != (*target.shape, source.size(1)):
            raise OptionError(
                f"--criterion guided_alignment: {name} returns attention of the shape {tuple(weights.shape)}, "
                f"must be {(*target.shape, source.size(1))} (sentences, target words, source words); choose an "
                "architecture with such attention, such as lstm_soft"
            )
        if self.training and self.alignment_weight and torch.is_grad_enabled() and not weights.requires_grad:
            raise OptionError(
                f"--criterion guided_alignment: nothing of the attention of {name} is trained; choose another one, "
                "such as --attention soft, or --gaussian-trained, which gaussian and election attention have"
            )
        links = links_matrix(sample.get("alignments"), weights)
        first = self.ignore_prefix_size
        return alignment_terms(weights[:, first:], links[:, first:], self.cfg.alignment_loss)

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Logs the metrics of the module's docstring."""
        super().reduce_metrics(logging_outputs)
        words = total(logging_outputs, "aligned_words")
        log_mean(logging_outputs, "alignment_loss", words)
        log_mean(logging_outputs, "alignment_accuracy", words, 100.0, 2, "aligned_correct")
        log_mean(logging_outputs, "alignment_weight", total(logging_outputs, "nsentences"))


def _attention(output: Any) -> Optional[Tensor]:
    """The attention weights in a model's output: in a dictionary, in a list with one entry, or the tensor itself."""
    extra = output[1] if isinstance(output, (tuple, list)) and len(output) > 1 else None
    weights = extra.get("attn") if isinstance(extra, dict) else extra
    if isinstance(weights, (tuple, list)):
        weights = weights[0] if len(weights) else None
    return weights if isinstance(weights, Tensor) else None
