"""Estimates a translation lexicon P(e | f) from extracted attention.

c(f, e) counts source word f with target word e. From attention a_tj, with each row divided by its sum,

    hard   c(f, e) is the number of pairs (t, j) with f = f_j and e = e_t, where j = argmax_k a_tk
    soft   c(f, e) is the sum of a_tj over all t and j with f = f_j and e = e_t

Weight on the end of the source counts for no word. The two sentence ends count as a pair once in every sentence,
whatever the model attends to there, so that a decoder can look up the end. A word with ``<unk>`` is never counted, nor
one without letters, a lone blank of SentencePiece. P(e | f) = c(f, e) / sum_e c(f, e).
"""

from typing import Dict, Iterable, List, Optional

import numpy as np

from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.text.lexicon import Entry
from fairseq_attn_plugin.text.unknown_words import UNKNOWN

END = "</s>"

PairCounts = Dict[str, Dict[str, float]]  # {source word: {target word: count}}


def count_records(
    records: Iterable[Record],
    soft: bool = False,
    level: str = "words",
    weights: Optional[str] = None,
    counts: Optional[PairCounts] = None,
) -> PairCounts:
    """Counts c(f, e) from extracted attention, in addition to ``counts``.

    ``soft`` counts all weights instead of the greatest weight of each row; ``level`` is one of ``LEVELS``;
    ``weights`` is as for :meth:`.Record.matrix`.
    """
    counts = {} if counts is None else counts
    for record in records:
        matrix = record.unit_attention(level, weights, end=True)
        sources, targets = record.units(level)
        end = len(sources)
        for target, row in zip(targets, matrix):
            total = row.sum()
            if not total > 0 or UNKNOWN in target or not target:  # the row sums to zero or to nan
                continue
            if soft:
                for column in np.flatnonzero(row[:end]):
                    _add(counts, sources[column], target, float(row[column] / total))
            elif row.argmax() < end:
                _add(counts, sources[int(row.argmax())], target, 1.0)
        _add(counts, END, END, 1.0)
    return counts


def _add(counts: PairCounts, source: str, target: str, count: float) -> None:
    if source and UNKNOWN not in source:
        of = counts.setdefault(source, {})
        of[target] = of.get(target, 0.0) + count


def estimate_lexicon(counts: PairCounts, min_count: float = 1, top: Optional[int] = None) -> Dict[str, List[Entry]]:
    """P(e | f) of the module's docstring.

    Args:
        counts: of :func:`count_records`
        min_count: pairs with a smaller count are not listed, but they remain in the sum of f
        top: greatest number of translations that are listed for a word (default: all)

    Returns:
        {f: entries, the most probable first}, sorted by f
    """
    lexicon = {}
    for source in sorted(counts):
        of = counts[source]
        total = sum(of.values())
        # sums of rounded weights can exceed one slightly
        entries = [Entry(target, min(count / total, 1.0), count) for target, count in of.items() if count >= min_count]
        entries.sort(key=lambda entry: (-entry.probability, entry.target))
        if entries[:top]:
            lexicon[source] = entries[:top]
    return lexicon
