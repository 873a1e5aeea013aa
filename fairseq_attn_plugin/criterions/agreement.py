"""``--criterion agreement``: trains two directions together, so that their attentions become each other's transposes.

With D the term of ``--agreement-loss``, the loss of a sentence pair x, y is

    -log p(y | x) - log p(x | y) + weight * D

(Cohn et al. 2016, "Incorporating Structural Alignment Biases into an Attentional Neural Translation Model"). Both
likelihoods are smoothed by ``--label-smoothing``. The loss of a batch is divided by the number of words of both
languages, or by the number of pairs with ``--sentence-avg``. ``--agreement-warmup-updates`` raises the weight from 0,
because untrained attentions give no useful signal.

F [T, N] is the attention of the direction source -> target; row t belongs to the step that predicts target word t.
R [N, T] is the attention of target -> source. The end-of-sentence symbols count as words, so that the last steps of
both directions have to agree as well. The losses of a sentence are

    trace          -tr(F R) = -sum_tj F_tj R_jt. If rows sum to one, the trace is at most min(T, N). For T = N only
                   one-hot attentions that are each other's transposes reach this bound (Cohn et al. 2016, "bilingual
                   symmetry": the trace is added to the two log-likelihoods and not divided by the length)
    log-trace      -log tr(F R)            (Cheng et al. 2016, "Agreement-based Joint Training for Bidirectional
                   Attention-based Neural Machine Translation", "multiplication")
    squared        sum_tj (F_tj - R_jt)^2  (the same paper, "square of subtraction")
    cross-entropy  -sum_t sum_j r_tj log F_tj - sum_j sum_t f_jt log R_jt with r_tj = R_jt / sum_k R_kt and f_jt =
                   F_tj / sum_s F_sj. The target of a word is the column of the other direction's attention,
                   normalised over the words of the other side and detached. A column without weight gives no target.

``trace`` and ``log-trace`` also reward peaked attentions. ``squared`` is zero for all transposes, peaked or not.

Logged metrics, summed over workers:

    loss               training: the loss above, bits per word (per pair with --sentence-avg); validation: nll_loss, so
                       that it does not depend on the weight, and ``checkpoint_best.pt`` has the best translation model
    nll_loss, ppl      words of both languages together, without smoothing
    forward_ppl, reverse_ppl   (and ..._nll_loss) each direction; forward is from --source-lang to --target-lang
    agreement          trace of the product of the two attentions divided by min(T, N), its maximum, for every
                       ``--agreement-loss``; 1 for one-to-one alignments that are the same in both directions
    agreement_loss     D, mean over sentence pairs
    agreement_weight   training: the current weight
"""

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, NamedTuple, Tuple

import torch
from fairseq.criterions import FairseqCriterion, register_criterion
from fairseq.criterions.label_smoothed_cross_entropy import label_smoothed_nll_loss
from fairseq.dataclass import FairseqDataclass
from fairseq.logging import metrics
from omegaconf import II
from torch import Tensor

from ..errors import OptionError
from ..models.agreement_lstm import AgreementLSTMModel, BothDirections
from ..ops.precision import in_full
from ..options import need, need_one_of, option
from .logged_sums import BITS, Updates, least_weight, log_mean, perplexity, total
from .vocabulary_losses import loss_in, unwrapped


class Attentions(NamedTuple):
    """Both attentions of B sentences as target x source matrices, in at least float32; zero on padding."""

    forward: Tensor  # [B, T, N], F
    reverse: Tensor  # [B, T, N], R transposed
    target_words: Tensor  # [B, T], False on padding
    source_words: Tensor  # [B, N]
    floor: float


def attentions(
    forward: Tensor, reverse: Tensor, target_words: Tensor, source_words: Tensor, normalized: bool = True
) -> Attentions:
    """Converts both attentions to target x source matrices.

    Args:
        forward: weights ``[B, T, N]`` of source -> target
        reverse: weights ``[B, N, T]`` of target -> source
        target_words: ``[B, T]``, False on padding
        source_words: ``[B, N]``, False on padding
        normalized: whether the weights of the mechanism sum to one; if not, rows are divided by their sums
    """
    floor = least_weight(forward.dtype)

    def rows(weights: Tensor, words: Tensor) -> Tensor:
        weights = in_full(weights)
        if not normalized:
            weights = weights / weights.sum(-1, keepdim=True).clamp(min=floor)
        return weights.masked_fill(~words.unsqueeze(-1), 0.0)

    back = rows(reverse, source_words).transpose(1, 2)
    return Attentions(rows(forward, target_words), back, target_words, source_words, floor)


def trace(both: Attentions) -> Tensor:
    """tr(F R) ``[B]``."""
    return (both.forward * both.reverse).sum((1, 2))


def trace_bound(both: Attentions) -> Tensor:
    """min(T, N) ``[B]``, the maximum of the trace."""
    return torch.minimum(both.target_words.sum(1), both.source_words.sum(1))


def _cross_entropy(both: Attentions) -> Tensor:
    def taught(learner: Tensor, teacher: Tensor, dim: int) -> Tensor:
        total = teacher.sum(dim, keepdim=True)
        target = (teacher / total.clamp(min=both.floor)).detach()
        # The floor keeps the loss finite for a weight of 0; the scale keeps it 0 for a weight of 1.
        return -(target * ((learner + both.floor) / (1 + both.floor)).log()).sum((1, 2))

    return taught(both.forward, both.reverse, 2) + taught(both.reverse, both.forward, 1)


LOSSES: Dict[str, Callable[[Attentions], Tensor]] = {
    "trace": lambda both: -trace(both),
    "log-trace": lambda both: -trace(both).clamp(min=both.floor).log(),
    "squared": lambda both: (both.forward - both.reverse).square().sum((1, 2)),
    "cross-entropy": _cross_entropy,
}


@dataclass
class AgreementConfig(FairseqDataclass):
    agreement_loss: str = option("trace", f"one of {', '.join(LOSSES)}")
    agreement_weight: float = option(1.0, "weight of the agreement term; 0 trains two independent directions")
    agreement_warmup_updates: int = option(0, "number of updates over which the weight rises linearly from 0")
    label_smoothing: float = option(0.0, "epsilon for label smoothing, 0 means no label smoothing")
    sentence_avg: bool = II("optimization.sentence_avg")


@register_criterion("agreement", dataclass=AgreementConfig)
class AgreementCriterion(FairseqCriterion):
    """Trains models of the ``lstm_agreement`` family. Other models are refused.

    Raises:
        OptionError: an option has a wrong value, or the model has one direction only
    """

    def __init__(self, cfg: AgreementConfig, task: Any):
        super().__init__(task)
        need_one_of(cfg, agreement_loss=LOSSES)
        need(cfg.agreement_weight >= 0, cfg, "agreement_weight", "0 or more")
        need(cfg.agreement_warmup_updates >= 0, cfg, "agreement_warmup_updates", "0 or more")
        need(0 <= cfg.label_smoothing < 1, cfg, "label_smoothing", "at least 0 and less than 1")
        self.cfg = cfg
        self.updates = Updates(task)

    def agreement_weight(self, updates: int) -> float:
        """The weight of the agreement term after ``updates`` updates."""
        warmup = self.cfg.agreement_warmup_updates
        return self.cfg.agreement_weight * (min(1.0, updates / warmup) if warmup else 1.0)

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, Any, Dict[str, Any]]:
        """Returns the loss, the sample size (a tensor where it counts words) and the logged sums of a batch."""
        both_models = unwrapped(model)
        if not isinstance(both_models, AgreementLSTMModel):
            raise OptionError(
                "--criterion agreement: needs a model of two directions (--arch lstm_agreement); "
                f"{type(both_models).__name__} has one direction, train it with --criterion "
                "label_smoothed_cross_entropy"
            )
        target, source = sample["target"], sample["net_input"]["src_tokens"]
        out: BothDirections = model(**sample["net_input"], target=target, smoothing=self.cfg.label_smoothing)
        losses, nlls = zip(
            self._likelihood(both_models.of(both_models.direction), out.forward, target),
            self._likelihood(both_models.of(both_models.reverse), out.reverse, out.reverse_target),
        )
        weight = self.agreement_weight(self.updates.number) if self.training else 0.0
        with torch.set_grad_enabled(torch.is_grad_enabled() and weight != 0):
            masks = target.ne(self.padding_idx), source.ne(self.padding_idx)
            normalized = both_models.decoder.attention.normalized  # type: ignore[union-attr]
            both = attentions(out.forward_weights, out.reverse_weights, *masks, normalized)
            disagreement = LOSSES[self.cfg.agreement_loss](both).sum()
        pairs, reverse_words = target.size(0), both.source_words.sum()  # for a number the host would wait
        words = sample["ntokens"] + reverse_words
        if self.training:
            loss, sample_size = sum(losses) + weight * disagreement, pairs if self.cfg.sentence_avg else words
        else:
            loss, sample_size = sum(nlls), words
        sums = {
            "loss": loss.detach(),
            "forward_nll_loss": nlls[0].detach(),
            "reverse_nll_loss": nlls[1].detach(),
            "agreement": trace(both).detach().sum(),
            "agreement_bound": trace_bound(both).sum(),
            "agreement_loss": disagreement.detach(),
            "ntokens": sample["ntokens"],
            "reverse_words": reverse_words,
            "nsentences": pairs,
            "sample_size": sample_size,
        }
        if self.training:
            sums["agreement_weight"] = weight * pairs
        return loss, sample_size, sums

    def _likelihood(self, model: Any, output: Any, target: Tensor) -> Tuple[Tensor, Tensor]:
        """The smoothed and the plain negative log-likelihood, summed over all words."""
        found = loss_in(output)
        if found is not None:
            return found.loss, found.nll
        log_probs = model.get_normalized_probs(output, log_probs=True)
        return label_smoothed_nll_loss(
            log_probs.view(-1, log_probs.size(-1)),
            target.reshape(-1),
            self.cfg.label_smoothing,
            ignore_index=self.padding_idx,
        )

    @classmethod
    def reduce_metrics(cls, logging_outputs: List[Dict[str, Any]]) -> None:
        """Logs the metrics of the module's docstring."""
        words = {"forward_": total(logging_outputs, "ntokens"), "reverse_": total(logging_outputs, "reverse_words")}
        pairs, sample_size = total(logging_outputs, "nsentences"), total(logging_outputs, "sample_size")
        if not pairs or not sample_size:
            return
        log_mean(logging_outputs, "loss", sample_size, BITS, 3)
        nll = {direction: total(logging_outputs, f"{direction}nll_loss") for direction in words}
        words[""], nll[""] = sum(words.values()), sum(nll.values())
        for direction in ("", "forward_", "reverse_"):
            bits = BITS * nll[direction] / words[direction]
            metrics.log_scalar(f"{direction}nll_loss", bits, words[direction], round=3)
            metrics.log_derived(f"{direction}ppl", perplexity(f"{direction}nll_loss"))
        log_mean(logging_outputs, "agreement", total(logging_outputs, "agreement_bound"))
        for name in ("agreement_loss", "agreement_weight"):
            log_mean(logging_outputs, name, pairs)

    @staticmethod
    def logging_outputs_can_be_summed() -> bool:
        return True
