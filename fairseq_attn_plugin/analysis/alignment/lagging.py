"""How far a translation that is written while the source is read lags behind it.

With g(t) the number of source words that are read when target word t = 1, ..., T is written, S source words and
tau the first t with g(t) = S (T if there is none):

    average lagging     AL = 1 / tau sum_{t <= tau} g(t) - (t - 1) S / T      (Ma et al. 2019, "STACL", eq. 8)
    average proportion  AP = 1 / (S T) sum_t g(t)                             (Cho and Esipova 2016)

A writer who keeps pace from the first word on has an AL near 1; one who reads the whole source first has S.
"""

from typing import List, Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.records.record import Record


def source_words_read(weights: np.ndarray, threshold: float = 0.0) -> List[int]:
    """g(t): up to the last source word that has had weight so far.

    Args:
        weights: ``[T, S + 1]``; the last column is the end of the source, and who attends to it has read all words
        threshold: weights up to it do not count
    """
    columns = np.arange(1, weights.shape[1] + 1)
    furthest = np.where(weights > threshold, columns, 0).max(axis=1, initial=0)
    return np.minimum(np.maximum.accumulate(furthest), weights.shape[1] - 1).tolist()


def average_lagging(reads: Sequence[int], source_length: int) -> float:
    """AL of the module's text; ``reads`` and the source are not empty."""
    steps = next((t for t, read in enumerate(reads, 1) if read >= source_length), len(reads))
    behind = [read - t * source_length / len(reads) for t, read in enumerate(reads[:steps])]
    return sum(behind) / steps


def lagging_of(record: Record, threshold: float) -> Optional[Tuple[float, float]]:
    """AL and AP of a record by its attention to words; None of an empty source or target.

    A target word of several subwords is written with its last one, a source word is read with its last one.
    """
    weights = record.word_attention(end=True)[:-1]
    size = weights.shape[1] - 1
    if not len(weights) or not size:
        return None
    reads = source_words_read(weights, threshold)
    return average_lagging(reads, size), sum(reads) / (size * len(reads))
