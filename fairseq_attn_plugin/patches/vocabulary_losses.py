"""Cross-entropy without the logits of a whole batch.

``cross_entropy``, ``label_smoothed_cross_entropy`` and ``..._with_alignment`` ask the models of this package for the
loss itself (:mod:`fairseq_attn_plugin.criterions.vocabulary_losses`). They take logits as before where they need more
than sums: with ``--report-accuracy``, without reduction, in subclasses with a loss of their own, and for models with an
adaptive softmax, a lexicon or a latent alignment.
"""

from typing import Any, Callable, Dict

from .wrapping import Patch, around, wrapped_by

PATCH_NAME = "vocabulary_losses"


@around
def _asking(forward: Callable[..., Any], self: Any, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Any:
    # not before the patches are installed, which explain the mistakes in the options of models
    from fairseq_attn_plugin.criterions.vocabulary_losses import ask_for_loss, sums_losses

    if reduce and _takes_sums(self) and sums_losses(model):
        smoothing, prefix = getattr(self, "eps", 0.0), getattr(self, "ignore_prefix_size", 0)
        sample = ask_for_loss(sample, self.padding_idx, smoothing, prefix)
    return forward(self, model, sample, reduce)


@around
def _taking(
    compute_loss: Callable[..., Any], self: Any, model: Any, net_output: Any, sample: Any, reduce: bool = True
) -> Any:
    from fairseq_attn_plugin.criterions.vocabulary_losses import loss_in

    found = loss_in(net_output)
    return compute_loss(self, model, net_output, sample, reduce) if found is None else (found.loss, found.nll)


def _takes_sums(criterion: Any) -> bool:
    """Whether the criterion needs no more than the sums of losses."""
    from fairseq.criterions.label_smoothed_cross_entropy import LabelSmoothedCrossEntropyCriterion

    kind, smoothed = type(criterion), LabelSmoothedCrossEntropyCriterion
    if isinstance(criterion, smoothed) and kind.get_lprobs_and_target is not smoothed.get_lprobs_and_target:
        return False
    return PATCH_NAME in wrapped_by(kind, "compute_loss") and not getattr(criterion, "report_accuracy", False)


VOCABULARY_LOSSES = Patch(
    name=PATCH_NAME,
    reason="cross-entropy holds the logits of a whole batch several times, and takes most of the memory",
    wraps={
        "fairseq.criterions.cross_entropy:CrossEntropyCriterion.forward": _asking,
        "fairseq.criterions.cross_entropy:CrossEntropyCriterion.compute_loss": _taking,
        "fairseq.criterions.label_smoothed_cross_entropy:LabelSmoothedCrossEntropyCriterion.forward": _asking,
        "fairseq.criterions.label_smoothed_cross_entropy:LabelSmoothedCrossEntropyCriterion.compute_loss": _taking,
        "fairseq.criterions.label_smoothed_cross_entropy_with_alignment:"
        "LabelSmoothedCrossEntropyCriterionWithAlignment.forward": _asking,
    },
)
