"""Keeps the sentence pairs of records whose attention looks sure, for corpora and back-translations."""

from __future__ import annotations

import contextlib
from typing import Iterator, NamedTuple, Optional, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.outputs.reading import read_lines
from fairseq_attn_plugin.analysis.records.confidence import measures_of
from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_text


class Rule(NamedTuple):
    """Which sentences are kept: those of at least ``threshold``, or the best ``share``. One of the two is None."""

    by: str = "confidence"
    threshold: Optional[float] = None
    share: Optional[float] = None
    weights: Optional[str] = None  # name of the matrix
    end: bool = False  # the ends of sentences count


class Kept(NamedTuple):
    """The outcome, in numbers of sentences."""

    kept: int
    read: int
    corpus: int  # the records may lack sentences, which are not kept
    least: float  # value of a kept sentence; NaN if there is none
    empty: int  # sentences without words on one side, which are not kept


def filter_records(
    records: Records,
    rule: Rule,
    prefix: str,
    source_text: Optional[str] = None,
    target_text: Optional[str] = None,
) -> Kept:
    """Writes ``PREFIX.SOURCE`` and ``PREFIX.TARGET`` (languages), and the numbers of their sentences ``PREFIX.lines``.

    One record is in memory at a time, and a number for each if the best are sought, for which the file is read twice.

    Args:
        records: with the sentences
        rule: which are kept; of equal ones the first. A sentence without words on one side never is
        prefix: of the files to write
        source_text: a corpus with the lines of the sentences, to write in the place of the records' words
        target_text: the same of the target side

    Raises:
        OptionError: a file cannot be read or written, has no such measure, or the texts have other numbers of lines
    """
    header = records.header
    texts = [None if path is None else read_lines(path) for path in (source_text, target_text)]
    for path, text in zip((source_text, target_text), texts):
        if text is not None and len(text) != header.sentences:
            raise OptionError(f"{path}: has {len(text)} lines, the corpus has {header.sentences} sentences")
    least, ties = (rule.threshold, None) if rule.threshold is not None else _quantile(records, rule)
    assert least is not None
    kept = read = empty = 0
    smallest = np.inf
    names = (header.source_lang, header.target_lang, "lines")
    with contextlib.ExitStack() as stack:
        outs = [
            stack.enter_context(whole_text(f"{prefix}.{name}", f"--out {prefix}: {prefix}.{name} cannot be written"))
            for name in names
        ]
        for record, value in _valued(records, rule, "filter"):
            read += 1
            if value is None:
                empty += 1
                continue
            if value < least or (value == least and ties == 0):
                continue
            if value == least and ties is not None:
                ties -= 1
            kept, smallest = kept + 1, min(smallest, value)
            words = (record.source_words, record.target_words)
            lines = [" ".join(side) if text is None else text[record.id] for side, text in zip(words, texts)]
            for out, line in zip(outs, (*lines, str(record.id))):
                out.write(line + "\n")
    return Kept(kept, read, header.sentences, smallest if kept else float("nan"), empty)


def _valued(records: Records, rule: Rule, what: str) -> Iterator[Tuple[Record, Optional[float]]]:
    """Yields the records with their values: None without words on one side, where attention tells nothing."""
    for record in tqdm(records, what, records.header.sentences, unit=" sentences", disable=None):
        if not any(record.source_words) or not any(record.target_words):
            yield record, None
            continue
        values = measures_of(record, records.weights_name(rule.weights), rule.end)
        if rule.by not in values:
            raise OptionError(f"--by {rule.by}: {records.path}, sentence {record.id}, has no probabilities")
        yield record, values[rule.by]


def _quantile(records: Records, rule: Rule) -> Tuple[float, Optional[int]]:
    """The least value that is kept, and how many sentences with exactly this value."""
    found = [value for _, value in _valued(records, rule, "measure")]
    values = np.array([value for value in found if value is not None])
    wanted = min(round((rule.share or 0) * len(found)), len(values))
    if not wanted:
        return np.inf, 0
    least = float(np.partition(values, len(values) - wanted)[len(values) - wanted])
    return least, wanted - int((values > least).sum())
