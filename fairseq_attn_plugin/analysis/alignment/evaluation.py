"""Alignment error rate, precision, recall and F1 of systems against gold word alignments.

    attn-analysis aer --gold test.align soft.jsonl lstm_adm.jsonl fast_align=forward.align
    attn-analysis aer --gold test.wa.nonullalign --source-text test.en --target-text test.fr soft.align

A system is a Pharaoh file, a line ``0-0 1-2`` for each sentence, or records of ``attn-analysis extract``, which are
aligned as ``attn-analysis align`` does it. :mod:`.error_rate` defines the four measures. In Python::

    gold = read_gold("test.align")
    alignment_error_rate([links or () for links in align(open_records("soft.jsonl"))], gold)
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict, FrozenSet, List, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.error_rate import Score, alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.linking import (
    Linking,
    check_number,
    record_links,
    units,
    weights_name,
)
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, Link, read_gold
from fairseq_attn_plugin.analysis.records.files import Records, check_labels, label_and_path, open_records
from fairseq_attn_plugin.analysis.records.record import SUFFIXES
from fairseq_attn_plugin.errors import OptionError

__all__ = ["Corpus", "Result", "System", "evaluate", "read_corpus", "read_system", "read_systems", "table"]


class System(NamedTuple):
    """What one system says."""

    label: str
    path: str
    links: List[Optional[FrozenSet[Link]]]  # None: the sentence is not in the records
    lengths: Optional[List[Optional[Tuple[int, int]]]] = None  # of source and target, if they are records
    weights: Optional[str] = None  # which matrices, if they are records


class Result(NamedTuple):
    """The quality of one system."""

    label: str
    score: Score
    links: int
    left_out: int  # sentences that are not in the records; they count as without links


class Corpus(NamedTuple):
    """What is known of the sentences that are aligned."""

    lengths: List[Optional[Tuple[int, int]]]  # words of source and target, None where they are not known
    path: str  # of what says so


def read_system(text: str, linking: Linking, corpus: Optional[Corpus] = None) -> System:
    """A system from ``FILE`` or ``LABEL=FILE``, records or links.

    Raises ``OptionError`` if the file cannot be read, is of the model's own translations, which gold alignments are not
    about, or is not of the corpus.
    """
    label, path = label_and_path(text)
    if Path(path).suffix in SUFFIXES:
        return _read_records(open_records(path, label), linking, corpus)
    alignments = read_gold(path, "pharaoh", lengths=corpus.lengths if corpus else None)
    return System(label or Path(path).stem, path, [alignment.possible for alignment in alignments])


def _read_records(records: Records, linking: Linking, corpus: Optional[Corpus]) -> System:
    count, path = records.header.sentences, records.path
    if records.header.target != "reference":
        raise OptionError(
            f"{path}: is of the model's own translations ({records.header.target}); gold alignments are of the "
            "references, so extract without --beam"
        )
    if corpus is not None and len(corpus.lengths) != count:
        raise OptionError(f"{path}: is of {count} sentences, {corpus.path} of {len(corpus.lengths)}")
    if linking.weights not in records.header.weights:
        linking = linking._replace(weights=weights_name(records))
    links: List[Optional[FrozenSet[Link]]] = [None] * count
    lengths: List[Optional[Tuple[int, int]]] = [None] * count
    for record in tqdm(records, desc=records.label, total=count, unit=" sentences", disable=None):
        number = check_number(record, records)
        sides = units(record, linking.level)
        length = (len(sides[0]), len(sides[1]))
        known = corpus.lengths[number] if corpus is not None else None
        if corpus is not None and known not in (None, length):
            raise OptionError(
                f"{path}: sentence {number} has {length[0]} source and {length[1]} target {linking.level}, in "
                f"{corpus.path} it has {known[0]} and {known[1]}"
            )
        lengths[number], links[number] = length, record_links(record, linking)
    return System(records.label, str(path), links, lengths, linking.weights)


def read_systems(
    texts: Sequence[str], linking: Linking, corpus: Optional[Corpus] = None
) -> Tuple[List[System], Optional[Corpus]]:
    """Several systems in the order given, and all that is known of their corpus.

    Raises ``OptionError`` as :func:`read_system`, and where two have the same label.
    """
    systems: Dict[str, System] = {}
    # records say how long the sentences are: links are checked against that
    for text in sorted(texts, key=lambda text: Path(text).suffix not in SUFFIXES):
        system = systems[text] = read_system(text, linking, corpus)
        if corpus is None and system.lengths is not None:
            corpus = Corpus(system.lengths, system.path)
        elif corpus is not None and system.lengths is not None:
            corpus = corpus._replace(lengths=[one or other for one, other in zip(corpus.lengths, system.lengths)])
    check_labels([systems[text].label for text in texts])
    wanted, found = linking.weights, {system.weights for system in systems.values() if system.weights is not None}
    if wanted is not None and found and wanted not in found:
        raise OptionError(f"--weights {wanted}: none of the files has it; they have {', '.join(sorted(found))}")
    return [systems[text] for text in texts], corpus


def read_corpus(source: str, target: str) -> Corpus:
    """A corpus of two texts; raises ``OptionError`` if they cannot be read or have different numbers of lines."""
    counts = []
    for option, path in (("--source-text", source), ("--target-text", target)):
        try:
            with open(path, encoding="utf-8") as stream:
                counts.append([len(line.split()) for line in stream])
        except (OSError, UnicodeDecodeError) as error:
            raise OptionError(f"{option} {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(counts[0]) != len(counts[1]):
        raise OptionError(f"--target-text {target}: has {len(counts[1])} lines, {source} has {len(counts[0])}")
    return Corpus(list(zip(*counts)), f"{source} and {target}")


def evaluate(systems: Sequence[System], gold: Sequence[GoldAlignment]) -> List[Result]:
    """The quality of every system; raises ``OptionError`` for one of another number of sentences than the gold."""
    results = []
    for system in systems:
        if len(system.links) != len(gold):
            raise OptionError(f"{system.path}: has {len(system.links)} sentences, the gold alignments have {len(gold)}")
        links = [sentence or frozenset() for sentence in system.links]
        left_out = sum(sentence is None for sentence in system.links)
        results.append(Result(system.label, alignment_error_rate(links, gold), sum(map(len, links)), left_out))
    return results


def table(results: Sequence[Result]) -> str:
    """A line for each system."""
    rows = [["system", "AER", "precision", "recall", "F1", "links"]]
    for label, score, links, _ in results:
        rows.append([label, *(f"{value:.4f}" for value in (*score, score.f1)), f"{links}"])
    widths = [max(map(len, column)) for column in zip(*rows)]
    return "\n".join(
        "  ".join(cell.rjust(width) if i else cell.ljust(width) for i, (cell, width) in enumerate(zip(row, widths)))
        for row in rows
    )
