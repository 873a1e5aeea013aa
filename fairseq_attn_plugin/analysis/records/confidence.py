"""How sure a model's attention looks, as a score per sentence: coverage and entropies (Rikters and Fishel 2017).

With weights a_tj of T target and N source subwords, without the ends of the sentences::

    coverage = -1/N sum_j log(1 + (1 - sum_t a_tj)^2)       each source subword should receive a weight of 1
    out      =  1/T sum_t sum_j b_tj log b_tj,  b_tj = a_tj / sum_k a_tk      minus the entropy of the rows
    in       =  1/N sum_j sum_t c_tj log c_tj,  c_tj = a_tj / sum_s a_sj      minus the entropy of the columns
    confidence = coverage + out + in

Each is at most 0, and 0 is best: every source subword is read by exactly one target subword. The paper ("Confidence
through Attention", MT Summit XVI) calls them coverage deviation penalty, CDP, and absentmindedness penalties, AP. A row
or a column without weight has entropy 0. The sum of an empty sentence is 0.
"""

from typing import Dict, NamedTuple, Optional

import numpy as np

from fairseq_attn_plugin.analysis.records.record import Record


class Confidence(NamedTuple):
    """The parts, and their sum, the confidence."""

    coverage: float
    out: float
    into: float
    total: float


def attention_confidence(weights: np.ndarray) -> Confidence:
    """The confidence of a matrix ``[T, N]`` of weights, which are not negative."""
    weights = np.asarray(weights, dtype=float)
    if not weights.size:
        return Confidence(0.0, 0.0, 0.0, 0.0)
    coverage = -np.log1p((1 - weights.sum(axis=0)) ** 2).mean()
    parts = float(coverage), _certainty(weights), _certainty(weights.T)
    return Confidence(*parts, sum(parts))


def _certainty(rows: np.ndarray) -> float:
    """Minus the mean entropy of the rows, each divided by its sum."""
    total = rows.sum(axis=1, keepdims=True)
    shares = rows / np.where(total > 0, total, 1)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    return float((shares * logs).sum(axis=1).mean())


def record_confidence(record: Record, name: Optional[str] = None) -> Confidence:
    """The confidence of a record by the matrix ``name`` (default: ``attention``, or the first one)."""
    return attention_confidence(record.unit_attention("subwords", name))


def measures_of(record: Record, name: Optional[str] = None) -> Dict[str, float]:
    """All measures of a sentence, {name: value}, and beside them ``score``, the mean log probability (missing if it is
    unknown), and ``length``, minus the number of source subwords."""
    found = record_confidence(record, name)
    values = {"confidence": found.total, "coverage": found.coverage, "out": found.out, "in": found.into}
    if record.scores:
        values["score"] = record.score
    return {**values, "length": -float(len(record.source))}
