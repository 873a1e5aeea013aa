"""Alignment error rate, precision, recall and F1 of one set of links (Och and Ney 2003)."""

from __future__ import annotations

from typing import Iterable, NamedTuple, Sequence

from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, Link


class ErrorRate(NamedTuple):
    """Alignment quality over a corpus; every value is between 0 and 1."""

    aer: float
    precision: float  # on possible links
    recall: float  # on sure links

    @property
    def f1(self) -> float:
        """2 / (1 / precision + 1 / recall), or 0 if either is 0.

        The balanced F-measure of precision on possible and recall on sure links (Fraser and Marcu, "Measuring Word
        Alignment Quality for Statistical Machine Translation", 2007, with alpha = 1/2). If all gold links are sure, it
        equals 1 - AER.
        """
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def alignment_error_rate(predicted: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]) -> ErrorRate:
    """AER = 1 - (|A n S| + |A n P|) / (|A| + |S|), precision |A n P| / |A|, recall |A n S| / |S|.

    A is the set of predicted links, S that of sure links, P that of possible links, which includes S. The counts are
    summed over the corpus (Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models", 2003).
    Precision is 1 without predicted links, recall is 1 without sure links, and AER is 0 without either.

    Raises:
        ValueError: the two have different numbers of sentences
    """
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} predicted alignments, but {len(gold)} gold ones")
    links = sure = hit_sure = hit_possible = 0
    for sentence, reference in zip(predicted, gold):
        answer = set(sentence)
        links += len(answer)
        sure += len(reference.sure)
        hit_sure += len(answer & reference.sure)
        hit_possible += len(answer & (reference.possible | reference.sure))
    aer = 1 - (hit_sure + hit_possible) / (links + sure) if links + sure else 0.0
    return ErrorRate(aer, hit_possible / links if links else 1.0, hit_sure / sure if sure else 1.0)
