"""Cross-entropy of document classes: fairseq's ``sentence_prediction`` with macro-F1.

Logged metrics: ``loss`` in bits per document, ``accuracy`` in percent, and in validation ``macro_f1`` in percent. The
F1 of a class c is 2 hits_c / (labels_c + predictions_c). Macro-F1 is the mean over the classes that are the label or
the prediction of at least one document, as scikit-learn's ``f1_score(average="macro")``. The counts are summed over
batches and workers, so that macro-F1 describes the whole validation set.
"""

import math
from typing import Any, Dict, List, Tuple

import numpy as np
import torch
from fairseq.criterions import register_criterion
from fairseq.criterions.sentence_prediction import SentencePredictionConfig, SentencePredictionCriterion
from fairseq.logging import metrics
from torch import Tensor

from ..errors import OptionError
from ..options import flag
from .logged_sums import BITS, log_mean, total

COUNTS = ("hits", "labels", "predictions")


def macro_f1(hits: Any, labels: Any, predictions: Any) -> float:
    """Macro-F1 in percent, from the counts ``[C]`` of the classes; nan without documents."""
    hits, both = np.asarray(hits, dtype=float), np.asarray(labels, dtype=float) + np.asarray(predictions, dtype=float)
    present = both > 0
    return float(100 * (2 * hits[present] / both[present]).mean()) if present.any() else math.nan


@register_criterion("document_classification", dataclass=SentencePredictionConfig)
class DocumentClassificationCriterion(SentencePredictionCriterion):
    """Trains document classifiers; the module's docstring lists the metrics.

    Raises:
        OptionError: an option asks for another metric of ``sentence_prediction``
    """

    def __init__(self, cfg: SentencePredictionConfig, task: Any):
        for name in ("report_mcc", "report_acc_and_f1", "report_pearson_and_spearman"):
            if getattr(cfg, name, False):
                raise OptionError(
                    f"{flag(name)}: belongs to --criterion sentence_prediction; this criterion always "
                    "reports accuracy and macro-F1"
                )
        super().__init__(cfg, task)

    def forward(self, model: Any, sample: Dict[str, Any], reduce: bool = True) -> Tuple[Tensor, int, Dict[str, Any]]:
        if model.training or self.regression_target:
            return super().forward(model, sample, reduce)
        seen: List[Tensor] = []
        # a hook reads the logits, so that the stock criterion computes the loss unchanged
        with model.register_forward_hook(lambda module, inputs, output: seen.append(output[0])):
            loss, sample_size, logged = super().forward(model, sample, reduce)
        labels, predictions = sample["target"].view(-1), seen[0].argmax(-1)
        for name, classes in zip(COUNTS, (labels[predictions == labels], labels, predictions)):
            counts = torch.bincount(classes, minlength=seen[0].size(-1))  # numbers of documents
            logged.update({f"class_{name}_{number}": count for number, count in enumerate(counts)})
        return loss, sample_size, logged

    @staticmethod
    def reduce_metrics(logging_outputs: List[Dict[str, Any]]) -> None:
        documents = total(logging_outputs, "sample_size")
        if not documents:
            return
        log_mean(logging_outputs, "loss", documents, BITS, 3)
        log_mean(logging_outputs, "accuracy", documents, 100.0, 2, "ncorrect")
        classes = len({name for log in logging_outputs for name in log if name.startswith("class_hits_")})
        if classes:
            for name in COUNTS:
                sums = [total(logging_outputs, f"class_{name}_{number}") for number in range(classes)]
                metrics.log_scalar(f"_class_{name}", np.array(sums))  # type: ignore[arg-type]
            metrics.log_derived(
                "macro_f1", lambda meters: round(macro_f1(*(meters[f"_class_{name}"].sum for name in COUNTS)), 2)
            )
