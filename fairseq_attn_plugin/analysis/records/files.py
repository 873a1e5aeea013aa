"""Reads the files that ``fairseq-attn extract`` writes, one sentence at a time.

    from fairseq_attn_plugin.analysis.records import open_records

    records = open_records("soft.jsonl")
    for record in records:                      # each loop reads the file again
        record.source_words, record.target_words, record.word_attention()

A file has the header in its first line and one sentence in each following line.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.analysis.records.jsonl import parse_header, partial_path, read_jsonl
from fairseq_attn_plugin.analysis.records.record import SUFFIX, Header, Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import LONGEST
from fairseq_attn_plugin.writing import PathLike

__all__ = ["Records", "check_labels", "is_records", "label_and_path", "open_records", "open_systems"]


class Records:
    """The sentences of a file. Each iteration reads the file again, one sentence at a time."""

    def __init__(self, path: PathLike, header: Header, label: Optional[str] = None, rank: int = 1):
        self.path, self.header, self.rank = Path(path), header, rank
        self.label = label or header.name + (f", rank {rank}" if rank > 1 else "")

    def __iter__(self) -> Iterator[Record]:
        """Yields the records in the order of the file; of n-best lists those of the rank.

        Raises ``OptionError`` as :meth:`hypotheses` does.
        """
        return (record for record in self.hypotheses() if record.rank == self.rank)

    def hypotheses(self) -> Iterator[Record]:
        """Yields all records in the order of the file, with all ranks of n-best lists.

        Raises ``OptionError``, which names the sentence, if the file is damaged, the sentence's number lies beyond the
        corpus, or it occurs twice.
        """
        seen = set()
        for record in read_jsonl(self.path, self.header):
            if not 0 <= record.id < self.header.sentences:
                raise OptionError(
                    f"{self.path}: has a sentence {record.id}; its corpus has {self.header.sentences} sentences, "
                    "counted from 0"
                )
            if (record.id, record.rank) in seen:
                which = f" with rank {record.rank}" if record.rank > 1 else ""
                raise OptionError(f"{self.path}: has sentence {record.id}{which} twice")
            seen.add((record.id, record.rank))
            yield record

    def count(self) -> int:
        """The number of records, found without reading a matrix; raises ``OptionError`` as iteration does."""
        try:
            with open(self.path, "rb") as stream:
                blocks = iter(lambda: stream.read(2**20), b"")
                last, lines = b"\n", 0
                for last in blocks:
                    lines += last.count(b"\n")
                return lines - last.endswith(b"\n")
        except OSError as error:
            raise OptionError(f"{self.path}: cannot be read: {error}") from None

    def find(self, numbers: Iterable[int]) -> Dict[int, Record]:
        """The records with these ids, {id: record}, without those that the file does not have."""
        wanted = set(numbers)
        found: Dict[int, Record] = {}
        for record in self:
            if record.id in wanted:
                found[record.id] = record
                if len(found) == len(wanted):
                    break
        return found

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
        path: ends in ``.jsonl``; ``FILE.jsonl@2`` is the second hypothesis of each n-best list in it
        label: for legends and tables (default: the name in the header)

    Raises:
        OptionError: the file cannot be read, has another format, or its extraction was interrupted
    """
    path, rank = path_and_rank(path)
    if path.suffix == ".npz":
        raise OptionError(f"{path}: NPZ files are not read any more; extract again, --out {path.stem}{SUFFIX}")
    if path.suffix != SUFFIX:
        raise OptionError(f"{path}: must be a file of fairseq-attn extract, which ends in {SUFFIX}")
    if not path.exists() and partial_path(path).exists():
        raise OptionError(f"{path}: its extraction was interrupted; run the same fairseq-attn extract again")
    try:
        with open(path, encoding="utf-8-sig") as stream:
            line = stream.readline(LONGEST)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    header = parse_header(line, path)
    most = header.options.get("nbest", 1)
    if not 1 <= rank <= (most if isinstance(most, int) else 1):
        raise OptionError(f"{path}@{rank}: has hypotheses of rank 1 to {most}; extract --nbest writes more")
    return Records(path, header, label, rank)


def path_and_rank(path: PathLike) -> Tuple[Path, int]:
    """Splits ``FILE@RANK``; the rank of ``FILE`` is 1. A file may itself have such a name."""
    file, at, rank = os.fspath(path).rpartition("@")
    if at and rank.isdecimal() and len(rank) < 10 and Path(file).suffix == SUFFIX and not Path(path).exists():
        return Path(file), int(rank)
    return Path(path), 1


def is_records(path: PathLike) -> bool:
    """Whether a path names records of ``fairseq-attn extract``, by its suffix."""
    return path_and_rank(path)[0].suffix in (SUFFIX, ".npz")


def open_systems(paths: Sequence[str]) -> List[Records]:
    """Opens several files, each given as ``FILE`` or ``LABEL=FILE``.

    Raises ``OptionError`` as :func:`open_records` does, and if two files have the same label.
    """
    systems = [open_records(path, label) for label, path in map(label_and_path, paths)]
    check_labels([system.label for system in systems])
    return systems


def label_and_path(text: str) -> Tuple[Optional[str], str]:
    """Splits ``LABEL=FILE``; the label of ``FILE`` is None. A path may itself contain an equals sign."""
    label, equals, path = text.partition("=")
    if not label or not equals or "/" in label or Path(text).exists():
        return None, text
    return label, path


def check_labels(labels: Sequence[str]) -> None:
    """Raises ``OptionError`` if a label occurs twice."""
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(f"{label}: {labels.count(label)} files have this name; give each its own, NAME=FILE")
