"""Attention as objects: what a model attended to, sentence by sentence, in a file that is read as a stream.

    from fairseq_attn_plugin.analysis.records import open_records

    records = open_records("soft.jsonl")        # or soft.npz
    for record in records:                      # one sentence at a time, as often as one likes
        record.source_words, record.target_words, record.word_attention()

``attn-analysis extract`` writes such files. A JSONL file has a header in its first line and a sentence in each of the
others; an NPZ file has the same under the names ``header``, ``17/attention``, ``17/source`` and so on.
"""

from __future__ import annotations

import json
import os
import struct
import zipfile
import zlib
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np

from fairseq_attn_plugin._writing import whole_file
from fairseq_attn_plugin.errors import OptionError

from .alignment import merge_weights
from .subword_links import SUBWORDS, spell, words_of

__all__ = ["FORMAT", "Header", "Record", "RecordWriter", "Records", "open_records", "open_systems"]

FORMAT = "fairseq_attn_plugin attention 1"
SUFFIXES = (".jsonl", ".npz")
DIGITS = 5  # of a weight in a file: what a picture or an argmax can tell apart, and more
# what reading an archive raises, wherever it was damaged
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    KeyError,
    ValueError,
    EOFError,
    NotImplementedError,
    OverflowError,
)
PathLike = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Header:
    """What the sentences of a file have in common; files with equal headers are of the same run."""

    name: str  # of the system, for legends and tables
    architecture: str
    checkpoint: str  # file names, with colons between those of an ensemble
    source_lang: str
    target_lang: str
    split: str  # of the data, or the name of the text file
    target: str  # "reference", or "beam 5"
    subwords: str  # one of SUBWORDS
    sentences: int  # in the corpus
    weights: Tuple[str, ...] = ("attention",)  # names of the matrices: "prior" and "posterior" of latent models too
    options: Dict[str, Any] = field(default_factory=dict)  # everything else that changes what is extracted

    def same_run(self, other: Header) -> bool:
        """Whether both are of one extraction, wherever the checkpoint was looked for: its version is in ``options``."""
        return replace(self, checkpoint="") == replace(other, checkpoint="")


@dataclass(frozen=True)
class Record:
    """One sentence and what a model attended to.

    ``source`` and ``target`` are subwords without the end of the sentence, of lengths N and T. The matrices in
    ``weights`` are ``[T + 1, N + 1]``: a row for each target subword and the end, a column for each source subword and
    the end, in this order. ``scores`` are the T + 1 natural log probabilities of the target's subwords and its end.
    """

    id: int  # number of the sentence in the corpus, from 0
    source: List[str]
    target: List[str]
    weights: Dict[str, np.ndarray]
    scores: List[float]
    subwords: str = "bpe"
    reference: Optional[str] = None  # words, where the target is a hypothesis and the corpus has a translation

    @property
    def attention(self) -> np.ndarray:
        return self.weights["attention"]

    @property
    def score(self) -> float:
        """Mean natural log probability of the target's subwords, its end included."""
        return sum(self.scores) / len(self.scores) if self.scores else 0.0

    @property
    def source_words(self) -> List[str]:
        return spell(self.source, self.subwords)

    @property
    def target_words(self) -> List[str]:
        return spell(self.target, self.subwords)

    def word_attention(self, name: str = "attention", end: bool = False) -> np.ndarray:
        """Weights over words: sums over the pieces of a source word, means over those of a target word.

        ``[target words, source words]``; with ``end`` a last row and a last column for the ends of the sentences.
        Rows with the end sum to what the model's do; without it the weight that went to the source's end is missing.
        """
        sides = [words_of(tokens, self.subwords) for tokens in (self.source, self.target)]
        if end:
            sides = [words + [words[-1] + 1 if words else 0] for words in sides]
        return merge_weights(self.weights[name], *sides)


class Records:
    """The sentences of a file, read anew by every iteration, one at a time."""

    def __init__(self, path: PathLike, header: Header, label: Optional[str] = None):
        self.path, self.header = Path(path), header
        self.label = label or header.name

    def __iter__(self) -> Iterator[Record]:
        """Raises ``OptionError``, naming the sentence, if the file is damaged."""
        read = _read_npz if self.path.suffix == ".npz" else _read_jsonl
        return read(self.path, self.header)

    def count(self) -> int:
        """How many sentences there are, without their matrices; raises ``OptionError`` as iteration does."""
        try:
            if self.path.suffix == ".npz":
                with zipfile.ZipFile(self.path) as archive:
                    return len(_array(archive, "ids"))
            with open(self.path, "rb") as stream:
                return sum(1 for _ in stream) - 1
        except (OSError, *_DAMAGED) as error:
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
                line = str(_array(archive, "header"))
        else:
            with open(path, encoding="utf-8") as stream:
                line = stream.readline()
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except _DAMAGED:
        line = ""
    return Records(path, _parse_header(line, path), label)


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


def partial_path(path: PathLike) -> Path:
    """Where the sentences of an unfinished extraction lie, as JSONL."""
    return Path(f"{path}.unfinished")


def _parse_header(line: str, path: Path) -> Header:
    try:
        values = json.loads(line)
        if values.pop("format") != FORMAT:
            raise ValueError
        header = Header(**{**values, "weights": tuple(values["weights"])})
        if header.subwords not in SUBWORDS:
            raise ValueError
        return header
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OptionError(f"{path}: is no file of attn-analysis extract (its header is not of {FORMAT!r})") from None


def _header_line(header: Header) -> str:
    return json.dumps({"format": FORMAT, **asdict(header)}, ensure_ascii=False)


def _to_line(record: Record) -> str:
    values: Dict[str, Any] = {"id": record.id, "source": record.source, "target": record.target}
    if record.reference is not None:
        values["reference"] = record.reference
    values["score"] = round(record.score, DIGITS)
    values["scores"] = [round(score, DIGITS) for score in record.scores]
    words: Dict[str, Any] = {"source": record.source_words, "target": record.target_words}
    for name, matrix in record.weights.items():
        values[name] = _rounded(matrix)
        words[name] = _rounded(record.word_attention(name))
    values["words"] = words
    return json.dumps(values, ensure_ascii=False)


def _rounded(matrix: np.ndarray) -> List[List[float]]:
    return np.round(np.asarray(matrix, dtype=float), DIGITS).tolist()


def _from_values(values: Dict[str, Any], header: Header) -> Record:
    """Raises ``ValueError`` for anything that is no record."""
    try:
        shape = (len(values["target"]) + 1, len(values["source"]) + 1)
        weights = {name: np.array(values[name], dtype=np.float32) for name in header.weights}
        if any(matrix.shape != shape for matrix in weights.values()) or len(values["scores"]) != shape[0]:
            raise ValueError
        scores = [float(score) for score in values["scores"]]
        return Record(
            int(values["id"]),
            [str(token) for token in values["source"]],
            [str(token) for token in values["target"]],
            weights,
            scores,
            header.subwords,
            values.get("reference"),
        )
    except (KeyError, TypeError, AttributeError):
        raise ValueError from None


def _read_jsonl(path: Path, header: Header) -> Iterator[Record]:
    try:
        with open(path, encoding="utf-8") as stream:
            stream.readline()
            for number, line in enumerate(stream, 2):
                try:
                    record = _from_values(json.loads(line), header)
                except ValueError:
                    raise OptionError(f"{path}, line {number}: is no sentence with attention") from None
                yield record
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name + ".npy") as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def _read_npz(path: Path, header: Header) -> Iterator[Record]:
    try:
        with zipfile.ZipFile(path) as archive:
            for number in _array(archive, "ids").tolist():
                try:
                    values: Dict[str, Any] = {"id": number}
                    for name in ("source", "target", "scores", *header.weights):
                        values[name] = _array(archive, f"{number}/{name}").tolist()
                    if f"{number}/reference.npy" in archive.NameToInfo:
                        values["reference"] = str(_array(archive, f"{number}/reference"))
                    record = _from_values(values, header)
                except _DAMAGED:
                    raise OptionError(f"{path}: sentence {number} is damaged") from None
                yield record
    except (OSError, *_DAMAGED) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{path}: cannot be read: {error}") from None


class RecordWriter:
    """Writes sentences one by one, and goes on where an interrupted run with the same header stopped.

    Until :meth:`finish` they lie in ``PATH.unfinished``. ``done`` is how many of them lie there already, ``next`` the
    number in the corpus of the first that does not.
    Raises ``OptionError`` for another suffix than those of JSONL and NPZ, if the file cannot be written, or if
    another run's sentences lie there.
    """

    def __init__(self, path: PathLike, header: Header, replace: bool = False):
        """With ``replace`` what another run left, or is damaged, is replaced."""
        self.path, self.header = Path(path), header
        if self.path.suffix not in SUFFIXES:
            raise OptionError(f"--out {path}: must end in {' or '.join(SUFFIXES)}")
        self.partial = partial_path(path)
        self.done = self.next = 0
        self._written = False
        try:
            self._stream = open(self.partial, "a+b")  # noqa: SIM115
            self._lock()
            self._stream.seek(0)
            try:
                whole = self._recover()
            except OptionError:
                if not replace:
                    raise
                whole = self.done = self.next = 0
            self._stream.truncate(whole)
            self._stream.seek(whole)
            if not whole:
                self._put(_header_line(header))
        except OSError as error:
            raise self._failed(error) from None
        except OptionError:
            self._stream.close()
            raise

    def _lock(self) -> None:
        """Two processes that write the same file would write over each other; where there are no locks, so be it."""
        try:
            import fcntl
        except ImportError:
            return
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OptionError(f"--out {self.path}: another process is writing it") from None
        except OSError:  # a file system without locks
            return

    def _recover(self) -> int:
        """Counts what was written to its end; returns the number of its bytes."""
        whole, last, theirs = 0, b"", None
        for line in self._stream:
            if not line.endswith(b"\n"):
                break
            if whole:
                self.done, last = self.done + 1, line
            else:
                theirs = _parse_header(line.decode("utf-8", "replace"), self.partial)
            whole += len(line)
        if theirs is None or not self.done:
            return 0
        if not self.header.same_run(theirs):
            raise OptionError(
                f"--out {self.path}: {self.partial} holds an interrupted extraction of other options or another "
                "corpus; give them again, or --overwrite, or another file"
            )
        try:
            self.next = int(json.loads(last)["id"]) + 1
        except (ValueError, KeyError, TypeError):
            raise OptionError(f"--out {self.path}: {self.partial} is damaged; --overwrite begins anew") from None
        return whole

    def write(self, record: Record) -> None:
        """Raises ``ValueError`` for matrices that do not fit the tokens."""
        shape = (len(record.target) + 1, len(record.source) + 1)
        for name, matrix in record.weights.items():
            if matrix.shape != shape or len(record.scores) != shape[0]:
                raise ValueError(f"sentence {record.id}: {name} is {matrix.shape}, its tokens are {shape}")
        self._written = True
        try:
            self._put(_to_line(record))
        except OSError as error:
            raise self._failed(error) from None

    def _put(self, line: str) -> None:
        # a lone surrogate, of a text that was no UTF-8, cannot be written
        self._stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
        self._stream.flush()  # nothing of it is lost with the process

    def close(self) -> None:
        """What was written stays; the next writer goes on after it. Closing again does nothing."""
        try:
            self._stream.close()
            if not self.next and self.partial.exists() and not self._written:
                self.partial.unlink()  # a header alone is of no use to anybody
        except OSError as error:
            raise self._failed(error) from None

    def finish(self) -> None:
        """Closes it and puts everything under the file's name."""
        self._written = True  # a corpus of which no sentence was extracted is one
        self.close()
        if self.path.suffix == ".npz":
            with whole_file(self.path, f"--out {self.path}: cannot be written") as whole:
                _write_npz(whole, self.header, _read_jsonl(self.partial, self.header))
            self.partial.unlink()
        else:
            try:
                os.replace(self.partial, self.path)
            except OSError as error:
                raise self._failed(error) from None

    def _failed(self, error: Exception) -> OptionError:
        return OptionError(f"--out {self.path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _write_npz(path: Path, header: Header, records: Iterable[Record]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, value: Any) -> None:
            with archive.open(name + ".npy", "w") as stream:
                np.lib.format.write_array(stream, np.asanyarray(value), allow_pickle=False)

        ids = []
        put("header", _header_line(header))
        for record in records:
            ids.append(record.id)
            texts = {"source": record.source, "target": record.target}
            words = {"words/source": record.source_words, "words/target": record.target_words}
            for name, tokens in {**texts, **words}.items():
                put(f"{record.id}/{name}", np.array(tokens, dtype=str))
            if record.reference is not None:
                put(f"{record.id}/reference", np.array(record.reference))
            put(f"{record.id}/scores", np.array(record.scores, dtype=np.float32))
            for name, matrix in record.weights.items():
                put(f"{record.id}/{name}", matrix.astype(np.float32))
                put(f"{record.id}/words/{name}", record.word_attention(name).astype(np.float32))
        put("ids", np.array(ids, dtype=np.int64))
