"""A translation lexicon P(e | f) from attention, or from word alignments.

    attn-analysis lexicon train.jsonl --out lexicon.tsv                      # for fairseq-train --lexicon
    attn-analysis lexicon train.jsonl --out lexicon.txt --format replace-unk # for fairseq-generate --replace-unk
    attn-analysis lexicon --links train.align --source train.de --target train.en --out lexicon.tsv

Counts c(f, e) of source word f and target word e come from extracted attention a_tj, each row divided by its sum,

    hard   the number of times that f = f_j and e = e_t, j being the position of e_t's greatest weight
    soft   the sum of a_tj over all t and j with e_t = e and f_j = f

or are the number of links between the two. Weight on the end of the source belongs to no word; the ends translate each
other, once in a sentence, whatever a model attended to when it ended, so that a decoder can look that up, too.
``<unk>`` is no word. With c(f) = sum_e c(f, e) and V the number of target words,

    none       P(e | f) = c(f, e) / c(f)
    add        P(e | f) = (c(f, e) + k) / (c(f) + k V)          listed for pairs that were counted
    discount   P(e | f) = max(c(f, e) - d, 0) / c(f)            absolute discounting; what is left is listed nowhere
"""

from __future__ import annotations

import json
from typing import Dict, Iterable, List, Optional, Sequence, TextIO, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.text.lexicon import Entry, write_best, write_probabilities

__all__ = ["Counts", "FORMATS", "LEVELS", "SMOOTHINGS", "count_links", "count_records", "estimate"]


END, UNKNOWN = "</s>", "<unk>"
LEVELS = ("words", "subwords")
SMOOTHINGS = ("none", "add", "discount")
FORMATS = ("probabilities", "replace-unk", "json")
DEFAULTS = {"none": 0.0, "add": 0.1, "discount": 0.5}

Counts = Dict[str, Dict[str, float]]  # {source word: {target word: count}}


def count_records(
    records: Iterable[Record],
    soft: bool = False,
    level: str = "words",
    weights: str = "attention",
    counts: Optional[Counts] = None,
) -> Counts:
    """Counts of the pairs in extracted attention.

    Args:
        records: sentences
        soft: count weights instead of the greatest of each row
        level: ``words`` or ``subwords``
        weights: which matrix of the records
        counts: what to add to

    Returns:
        ``counts``, or a new dictionary
    """
    counts = {} if counts is None else counts
    for record in records:
        if level == "words":
            matrix = record.word_attention(weights, end=True)
            sources, targets = record.source_words, record.target_words
        else:
            matrix = np.asarray(record.weights[weights], dtype=float)
            sources, targets = record.source, record.target
        end = len(sources)
        for target, row in zip(targets, matrix):
            total = row.sum()
            if not total > 0 or target == UNKNOWN:  # a row without weights, or with none that are numbers
                continue
            if soft:
                for column in np.flatnonzero(row[:end]):
                    _add(counts, sources[column], target, float(row[column] / total))
            elif row.argmax() < end:
                _add(counts, sources[int(row.argmax())], target, 1.0)
        _add(counts, END, END, 1.0)
    return counts


def count_links(
    sentences: Iterable[Tuple[Sequence[Link], Sequence[str], Sequence[str]]], counts: Optional[Counts] = None
) -> Counts:
    """As :func:`count_records`, from links, source and target of every sentence."""
    counts = {} if counts is None else counts
    for links, source, target in sentences:
        for i, j in links:
            if target[j] != UNKNOWN:
                _add(counts, source[i], target[j], 1.0)
        _add(counts, END, END, 1.0)
    return counts


def _add(counts: Counts, source: str, target: str, count: float) -> None:
    if source != UNKNOWN:
        of = counts.setdefault(source, {})
        of[target] = of.get(target, 0.0) + count


def estimate(
    counts: Counts,
    smoothing: str = "none",
    value: Optional[float] = None,
    min_count: float = 1,
    top: Optional[int] = None,
) -> Dict[str, List[Entry]]:
    """P(e | f) of the module's text, {f: entries, the most probable first}, in the order of the words f.

    Args:
        counts: those of :func:`count_records` or :func:`count_links`; all of them are in c(f)
        smoothing: one of ``SMOOTHINGS``
        value: k or d (default: 0.1 and 0.5)
        min_count: pairs with less are not listed
        top: list at most so many translations of a word
    """
    value = DEFAULTS[smoothing] if value is None else value
    vocabulary = len({target for of in counts.values() for target in of})
    lexicon = {}
    for source in sorted(counts):
        of = counts[source]
        total = sum(of.values())
        if smoothing == "add":
            probabilities = {target: (count + value) / (total + value * vocabulary) for target, count in of.items()}
        else:
            off = value if smoothing == "discount" else 0.0
            probabilities = {target: max(count - off, 0.0) / total for target, count in of.items()}
        # sums of rounded weights may be a little above one
        entries = [
            Entry(target, min(probability, 1.0), of[target])
            for target, probability in probabilities.items()
            if of[target] >= min_count and probability > 0
        ]
        entries.sort(key=lambda entry: (-entry.probability, entry.target))
        if entries[:top]:
            lexicon[source] = entries[:top]
    return lexicon


def write(stream: TextIO, lexicon: Dict[str, List[Entry]], form: str) -> None:
    """Writes a lexicon in one of ``FORMATS``; ``replace-unk`` has no use for ``</s>``."""
    if form == "probabilities":
        write_probabilities(stream, lexicon)
    elif form == "replace-unk":
        write_best(stream, {f: of for f, of in lexicon.items() if f != END})
    else:
        names = ("target", "probability", "count")
        json.dump(
            {f: [dict(zip(names, entry)) for entry in of] for f, of in lexicon.items()}, stream, ensure_ascii=False
        )
        stream.write("\n")
