"""Attention as objects: what a model attended to, sentence by sentence, in a file that is read as a stream.

    from fairseq_attn_plugin.analysis.records import open_records

    records = open_records("soft.jsonl")        # or soft.npz
    for record in records:                      # one sentence at a time, as often as one likes
        record.source_words, record.target_words, record.word_attention()

``attn-analysis extract`` writes such files. A JSONL file has a header in its first line and a sentence in each of the
others; an NPZ file has the same under the names ``header``, ``17/attention``, ``17/source`` and so on.
"""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.analysis.records.jsonl import parse_header, partial_path, read_jsonl
from fairseq_attn_plugin.analysis.records.npz import DAMAGED, read_array, read_npz
from fairseq_attn_plugin.analysis.records.record import SUFFIXES, Header, Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["Records", "open_records", "open_systems"]


class Records:
    """The sentences of a file, read anew by every iteration, one at a time."""

    def __init__(self, path: PathLike, header: Header, label: Optional[str] = None):
        self.path, self.header = Path(path), header
        self.label = label or header.name

    def __iter__(self) -> Iterator[Record]:
        """Raises ``OptionError``, naming the sentence, if the file is damaged."""
        read = read_npz if self.path.suffix == ".npz" else read_jsonl
        return read(self.path, self.header)

    def count(self) -> int:
        """How many sentences there are, without their matrices; raises ``OptionError`` as iteration does."""
        try:
            if self.path.suffix == ".npz":
                with zipfile.ZipFile(self.path) as archive:
                    return len(read_array(archive, "ids"))
            with open(self.path, "rb") as stream:
                return sum(1 for _ in stream) - 1
        except (OSError, *DAMAGED) as error:
            raise OptionError(f"{self.path}: cannot be read: {error}") from None

    def find(self, numbers: Iterable[int]) -> Dict[int, Record]:
        """The records with these ids, {id: record}; those that the file does not have are not in it."""
        wanted = set(numbers)
        found: Dict[int, Record] = {}
        for record in self:
            if record.id in wanted:
                found[record.id] = record
                if len(found) == len(wanted):
                    break
        return found


def open_records(path: PathLike, label: Optional[str] = None) -> Records:
    """The sentences of a file that ``attn-analysis extract`` wrote.

    Raises ``OptionError`` if it cannot be read, is no such file, or is one of an interrupted extraction.
    """
    path = Path(path)
    if path.suffix not in SUFFIXES:
        raise OptionError(f"{path}: is no file of attn-analysis extract, whose names end in {' or '.join(SUFFIXES)}")
    if not path.exists() and partial_path(path).exists():
        raise OptionError(f"{path}: its extraction was interrupted; run the same attn-analysis extract again")
    try:
        if path.suffix == ".npz":
            with zipfile.ZipFile(path) as archive:
                line = str(read_array(archive, "header"))
        else:
            with open(path, encoding="utf-8") as stream:
                line = stream.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except DAMAGED:
        line = ""
    return Records(path, parse_header(line, path), label)


def open_systems(paths: Sequence[str]) -> List[Records]:
    """Several files, each ``FILE`` or ``LABEL=FILE``; raises ``OptionError`` also where two have the same label."""
    systems = [open_records(path, label) for label, path in map(label_and_path, paths)]
    check_labels([system.label for system in systems])
    return systems


def label_and_path(text: str) -> Tuple[Optional[str], str]:
    """What ``FILE`` or ``LABEL=FILE`` says, None for no label; a path may have an equals sign itself."""
    label, equals, path = text.partition("=")
    if not label or not equals or "/" in label or Path(text).exists():
        return None, text
    return label, path


def check_labels(labels: Sequence[str]) -> None:
    """Raises ``OptionError`` where two systems have the same."""
    for label in labels:
        if labels.count(label) > 1:
            raise OptionError(
                f"{label}: {labels.count(label)} files have this name; give each one of its own, NAME=FILE"
            )
