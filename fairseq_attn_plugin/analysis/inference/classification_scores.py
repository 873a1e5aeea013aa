"""Accuracy, macro-F1, loss and confusion matrix of classified documents."""

from __future__ import annotations

import math
from typing import Any, Dict, Sequence

from fairseq_attn_plugin.analysis.inference.classification import Classified
from fairseq_attn_plugin.criterions.document_classification import macro_f1
from fairseq_attn_plugin.text.counting import counted

__all__ = ["ClassificationScores"]


MANY_UNKNOWN = 0.2  # a greater share of unknown words suggests a wrong preparation of the text


class ClassificationScores:
    """Counts documents, and right and wrong predictions for those with a known label."""

    def __init__(self, labels: Sequence[str]):
        self.labels = list(labels)
        self.documents = self.cut = self.words = self.unknown = 0
        self.bits = 0.0
        self.confusion = [[0] * len(labels) for _ in labels]  # [label][prediction]

    def add(self, item: Classified) -> None:
        """Counts one document."""
        self.documents += 1
        self.cut += item.cut
        self.words += sum(map(len, item.sentences))
        self.unknown += item.unknown
        if item.gold is not None:
            self.confusion[self.labels.index(item.gold)][self.labels.index(item.label)] += 1
            self.bits -= math.log2(max(item.probabilities[item.gold], 1e-6))

    def summary(self) -> Dict[str, Any]:
        """Accuracy and macro-F1 in percent and mean loss in bits, over the documents with a known label."""
        labelled = sum(map(sum, self.confusion))
        result: Dict[str, Any] = {"documents": self.documents, "labelled": labelled, "cut": self.cut}
        result["words"], result["unknown_words"] = self.words, self.unknown
        if labelled:
            hits = [self.confusion[k][k] for k in range(len(self.labels))]
            predictions = [sum(column) for column in zip(*self.confusion)]
            result["accuracy"] = round(100 * sum(hits) / labelled, 4)
            result["macro_f1"] = round(macro_f1(hits, [sum(row) for row in self.confusion], predictions), 4)
            result["loss"] = round(self.bits / labelled, 4)
            result["labels"], result["confusion"] = self.labels, self.confusion
        return result

    def __str__(self) -> str:
        values = self.summary()
        parts = [counted(self.documents, "document")]
        if "accuracy" in values:
            parts.append(
                "accuracy {accuracy:.2f}, macro-F1 {macro_f1:.2f}, loss {loss:.3f} bits".format(**values)
                + (f" (of {values['labelled']})" if values["labelled"] != self.documents else "")
            )
        if self.cut:
            parts.append(f"{self.cut} longer than --max-positions and cut")
        if self.unknown > MANY_UNKNOWN * self.words:
            parts.append(
                f"{100 * self.unknown / self.words:.0f} % of the words unknown: prepare the text as for training "
                "(--lowercase, --tokenize, --separator)"
            )
        return ", ".join(parts)
