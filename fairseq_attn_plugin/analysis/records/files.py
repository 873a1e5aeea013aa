"""Reads the files that ``fairseq-attn extract`` writes, one sentence at a time.

    from fairseq_attn_plugin.analysis.records import open_records

    records = open_records("soft.jsonl")
    for record in records:                      # each loop reads the file again
        record.source_words, record.target_words, record.word_attention()

A file is JSON lines: the header in the first line, one sentence in each following line. :func:`meet` and
:func:`check_same` pair the sentences of two files.
"""

import json
import os
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, TypeVar

import numpy as np

from fairseq_attn_plugin.analysis.records.confidence import record_confidence
from fairseq_attn_plugin.analysis.records.record import DIGITS, FORMAT, SUFFIX, Header, Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import LONGEST as LONGEST_HEADER
from fairseq_attn_plugin.text.lines import numbered_lines
from fairseq_attn_plugin.text.subwords import BPE_MARK, SUBWORDS
from fairseq_attn_plugin.text.unknown_words import UNKNOWN
from fairseq_attn_plugin.writing import PathLike

# Characters of a line: three matrices over 4,000 x 4,000 words, each written twice, 9 characters a number.
LONGEST = 2**30
_One = TypeVar("_One")
_Other = TypeVar("_Other")


def partial_path(path: PathLike) -> Path:
    """The file that holds the sentences of an unfinished extraction, as JSONL."""
    return Path(f"{path}.unfinished")


def parse_header(line: str, path: Path) -> Header:
    """The header in the first line of a file; raises ``OptionError``, which names ``path``, for anything else."""
    try:
        values = json.loads(line)
        if values.pop("format") != FORMAT:
            raise ValueError
        header = Header(**{**values, "weights": tuple(values["weights"])})
        if header.subwords not in SUBWORDS or not _whole(header.sentences) or not isinstance(header.options, dict):
            raise ValueError
        texts = [value for name, value in asdict(header).items() if name not in ("sentences", "weights", "options")]
        if not header.weights or not all(isinstance(text, str) for text in (*texts, *header.weights)):
            raise ValueError
        return header
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise OptionError(
            f"{path}: must be a file of fairseq-attn extract, with a header of format {FORMAT!r}"
        ) from None


def from_values(values: Dict[str, Any], header: Header) -> Record:
    """The record of a line's values; raises ``ValueError`` if they do not make one."""
    try:
        shape = (len(values["target"]) + 1, len(values["source"]) + 1)
        weights = {name: _numbers(values[name], shape) for name in header.weights}
        if any((matrix < 0).any() for matrix in weights.values()):
            raise ValueError
        # attention of another program may come without probabilities
        scores = _numbers(values["scores"], shape[:1]).tolist() if len(values["scores"]) else []
        source, target, reference = values["source"], values["target"], values.get("reference")
        if not (isinstance(source, list) and isinstance(target, list) and _whole(values["id"])):
            raise ValueError
        if not all(isinstance(text, str) for text in (*source, *target, *[reference] * (reference is not None))):
            raise ValueError
        return Record(values["id"], source, target, weights, scores, header.subwords, reference)
    except (KeyError, TypeError, AttributeError, OverflowError):
        raise ValueError from None


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _numbers(values: Any, shape: Tuple[int, ...]) -> np.ndarray:
    """Numbers of a shape, neither NaN nor +inf; raises ``ValueError`` for anything else."""
    found = np.asarray(values)
    if found.dtype.kind not in "iuf" or found.shape != shape:
        raise ValueError
    found = found.astype(np.float32) if len(shape) > 1 else found.astype(float)
    if not (found < np.inf).all():  # a word of probability zero scores -inf
        raise ValueError
    return found


def header_line(header: Header) -> str:
    """The first line of a file, without its line end."""
    return json.dumps({"format": FORMAT, **asdict(header)}, ensure_ascii=False)


def to_line(record: Record) -> str:
    """The line of a record, without its line end; weights and scores have ``DIGITS`` decimals."""
    values: Dict[str, Any] = {"id": record.id, "source": record.source, "target": record.target}
    if record.reference is not None:
        values["reference"] = record.reference
    if record.scores:
        values["score"] = round(record.score, DIGITS)
    values["scores"] = [round(score, DIGITS) for score in record.scores]
    parts = record_confidence(record)._asdict()
    values["confidence"] = {name: round(value, DIGITS) for name, value in parts.items()}
    words: Dict[str, Any] = {"source": record.source_words, "target": record.target_words}
    for name, matrix in record.weights.items():
        values[name] = _rounded(matrix)
        words[name] = _rounded(record.word_attention(name))
    values["words"] = words
    return json.dumps(values, ensure_ascii=False)


def _rounded(matrix: np.ndarray) -> List[List[float]]:
    return np.round(np.asarray(matrix, dtype=float), DIGITS).tolist()


class Records:
    """The sentences of a file. Each iteration reads the file again, one sentence at a time."""

    def __init__(self, path: PathLike, header: Header, label: Optional[str] = None):
        self.path, self.header, self.label = Path(path), header, label or header.name

    def __iter__(self) -> Iterator[Record]:
        """Yields the records in the order of the file.

        Raises ``OptionError``, which names line or sentence, if the file is damaged, the sentence's number lies beyond
        the corpus, or it occurs twice.
        """
        seen = set()
        for where, line in islice(numbered_lines(self.path, LONGEST), 1, None):  # the first one is the header
            try:
                record = from_values(json.loads(line), self.header)
            except (ValueError, RecursionError):
                raise OptionError(f"{where}: must be a sentence with attention") from None
            if record.id >= self.header.sentences:
                raise OptionError(
                    f"{self.path}: has a sentence {record.id}; its corpus has {self.header.sentences} sentences, "
                    "counted from 0"
                )
            if record.id in seen:
                raise OptionError(f"{self.path}: has sentence {record.id} twice")
            seen.add(record.id)
            yield record

    def select(self, numbers: Iterable[int]) -> Iterator[Record]:
        """Yields the records with these ids, in the order of the file, without those that it does not have."""
        wanted = set(numbers)
        for record in self if wanted else ():
            if record.id in wanted:
                wanted.remove(record.id)
                yield record
                if not wanted:
                    return

    def find(self, numbers: Iterable[int]) -> Dict[int, Record]:
        """The records of :meth:`select`, {id: record}."""
        return {record.id: record for record in self.select(numbers)}

    def weights_name(self, name: Optional[str] = None) -> str:
        """``name``, or the default if it is None: ``attention``, or the first matrix of a file without ``attention``.

        Raises ``OptionError`` if the file has no matrix ``name``.
        """
        known = self.header.weights
        if name is None:
            return "attention" if "attention" in known else known[0]
        if name not in known:
            raise OptionError(f"--weights {name}: {self.path} has {', '.join(known)}")
        return name


def open_records(path: PathLike, label: Optional[str] = None) -> Records:
    """Opens a file of ``fairseq-attn extract``.

    Args:
        path: ends in ``.jsonl``
        label: for legends and tables (default: the name in the header)

    Raises:
        OptionError: the file cannot be read, has another format, or its extraction was interrupted
    """
    path = Path(path)
    if path.suffix != SUFFIX:
        raise OptionError(f"{path}: must be a file of fairseq-attn extract, which ends in {SUFFIX}")
    if not path.exists() and partial_path(path).exists():
        raise OptionError(f"{path}: its extraction was interrupted; run the same fairseq-attn extract again")
    _, line = next(numbered_lines(path, LONGEST_HEADER), ("", ""))
    return Records(path, parse_header(line, path), label)


def is_records(path: PathLike) -> bool:
    """Whether a path names records of ``fairseq-attn extract``, by its suffix."""
    return Path(path).suffix == SUFFIX


def open_systems(paths: Sequence[str]) -> List[Records]:
    """Opens several files, each given as ``FILE`` or ``LABEL=FILE``.

    Raises ``OptionError`` as :func:`open_records` does, and if two files have the same label.
    """
    systems = [open_records(path, label) for label, path in map(label_and_path, paths)]
    check_labels([system.label for system in systems])
    return systems


def label_and_path(text: str) -> Tuple[Optional[str], str]:
    """Splits ``LABEL=FILE``; the label of ``FILE`` is None. Both may contain equals signs, as in ``lr=0.1``."""
    places = [place for place, letter in enumerate(text) if letter == "=" and place and "/" not in text[:place]]
    if not places or os.path.exists(text):
        return None, text
    place = next((place for place in places if os.path.exists(text[place + 1 :])), places[0])
    return text[:place], text[place + 1 :]


def check_labels(labels: Sequence[str]) -> None:
    """Raises ``OptionError`` if a label occurs twice."""
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(f"{label}: {labels.count(label)} files have this name; give each its own, NAME=FILE")


def meet(one: Iterable[Tuple[int, _One]], other: Iterable[Tuple[int, _Other]]) -> Iterator[Tuple[int, _One, _Other]]:
    """Yields (number, item, other item) for each number that both streams have.

    Both streams are read at the same pace. If their orders agree, only one item of each is in memory.
    """
    waiting: Tuple[Dict[int, Any], Dict[int, Any]] = ({}, {})
    streams: Dict[int, Iterator[Any]] = {0: iter(one), 1: iter(other)}
    while streams:
        for side, stream in list(streams.items()):
            pair = next(stream, None)
            if pair is None:
                del streams[side]
                continue
            number, item = pair
            if number in waiting[1 - side]:
                partner = waiting[1 - side].pop(number)
                yield (number, partner, item) if side else (number, item, partner)
            else:
                waiting[side][number] = item


def check_same(number: int, side: str, one: Tuple[str, Sequence[str]], other: Tuple[str, Sequence[str]]) -> None:
    """Raises ``OptionError`` unless two files, each a name and its words, have the same words in a sentence. ``<unk>``
    matches any word, since one of two models may not know it. ``side`` is ``source`` or ``target``, for the message.
    """
    pairs = list(zip(one[1], other[1]))
    differ = [pair for pair in pairs if pair[0] != pair[1] and not any(UNKNOWN in word for word in pair)]
    if not differ and len(one[1]) == len(other[1]):
        return
    where = f"sentence {number}: {one[0]} and {other[0]} have different {side} words"
    what = f"{differ[0][0]!r} and {differ[0][1]!r}" if differ else f"{len(one[1])} and {len(other[1])} words"
    marked: List[str] = [name for name, words in (one, other) if any(BPE_MARK in word for word in words)]
    why = f"; {marked[0]} has {BPE_MARK} in its words, the other does not" if len(marked) == 1 else ""
    raise OptionError(f"{where} ({what}){why}; they must be of the same corpus, in the same tokenisation")
