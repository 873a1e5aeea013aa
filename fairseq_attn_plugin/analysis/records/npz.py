"""Records as an NPZ archive: arrays ``header``, ``ids``, and ``17/attention``, ``17/source`` ... for sentence 17.

Further hypotheses of an n-best list are ``17.2/attention`` and so on; the number of hypotheses is ``17/hypotheses``.
"""

from __future__ import annotations

import math
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List

import numpy as np

from fairseq_attn_plugin.analysis.records.confidence import record_confidence
from fairseq_attn_plugin.analysis.records.jsonl import from_values, header_line
from fairseq_attn_plugin.analysis.records.record import Header, Record
from fairseq_attn_plugin.errors import OptionError

LARGEST = 2**27  # bytes of an array: the attention of 5,000 words to 5,000
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
# the exceptions that reading a damaged archive raises
DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    KeyError,
    ValueError,
    EOFError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    MemoryError,
    SyntaxError,  # of the description of an array, which numpy parses as Python
    tokenize.TokenError,
    SystemError,  # a number in a text that is no character
)


def read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    """One array of an archive; raises ``ValueError`` for pickled objects, and for more than is there or is bounded."""
    info = archive.getinfo(name + ".npy")
    with archive.open(info) as stream:
        read_header = _HEADERS[np.lib.format.read_magic(stream)]
        shape, _, kind = read_header(stream)
        if max(kind.itemsize, 1) * math.prod(shape) > min(info.file_size, LARGEST):
            raise ValueError(f"{name} has a shape of {shape}")
    with archive.open(info) as stream:
        return np.lib.format.read_array(stream, allow_pickle=False)


def read_ids(archive: zipfile.ZipFile) -> List[int]:
    """The numbers of the sentences; raises ``ValueError`` if they are not a list of whole numbers."""
    ids = read_array(archive, "ids")
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise ValueError("ids must be a list of whole numbers")
    return ids.tolist()  # type: ignore[no-any-return]


def read_npz(path: Path, header: Header) -> Iterator[Record]:
    """Yields the records of an archive; raises ``OptionError``, which names the sentence, if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            for number in read_ids(archive):
                rank = ranks = 1
                while rank <= ranks:
                    try:
                        if rank == 1 and f"{number}/hypotheses.npy" in archive.NameToInfo:
                            ranks = int(read_array(archive, f"{number}/hypotheses").item())
                        record = _read(archive, header, number, rank)
                    except DAMAGED:
                        raise OptionError(f"{path}: sentence {number} is damaged") from None
                    yield record
                    rank += 1
    except (OSError, *DAMAGED) as error:
        if isinstance(error, OptionError):
            raise
        raise OptionError(f"{path}: cannot be read: {error}") from None


def _read(archive: zipfile.ZipFile, header: Header, number: int, rank: int) -> Record:
    folder = _folder(number, rank)
    values: Dict[str, Any] = {"id": number, "rank": rank}
    for name in ("scores", *header.weights):
        values[name] = read_array(archive, f"{folder}/{name}")
    for name in ("source", "target"):
        values[name] = read_array(archive, f"{folder}/{name}").tolist()
    if f"{folder}/reference.npy" in archive.NameToInfo:
        values["reference"] = str(read_array(archive, f"{folder}/reference"))
    return from_values(values, header)


def _folder(number: int, rank: int) -> str:
    return f"{number}.{rank}" if rank > 1 else str(number)


def write_npz(path: Path, header: Header, records: Iterable[Record]) -> None:
    """Writes an archive array by array, so that one record is in memory at a time."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:

        def put(name: str, value: Any) -> None:
            with archive.open(name + ".npy", "w") as stream:
                np.lib.format.write_array(stream, np.asanyarray(value), allow_pickle=False)

        ids = []
        hypotheses: Dict[int, int] = {}  # {id: how many}
        put("header", header_line(header))
        for record in records:
            folder = _folder(record.id, record.rank)
            if record.rank == 1:
                ids.append(record.id)
            hypotheses[record.id] = record.rank
            texts = {"source": record.source, "target": record.target}
            words = {"words/source": record.source_words, "words/target": record.target_words}
            for name, tokens in {**texts, **words}.items():
                put(f"{folder}/{name}", np.array(tokens, dtype=str))
            if record.reference is not None:
                put(f"{folder}/reference", np.array(record.reference))
            put(f"{folder}/confidence", np.array(record_confidence(record)))
            put(f"{folder}/scores", np.array(record.scores, dtype=np.float32))
            for name, matrix in record.weights.items():
                put(f"{folder}/{name}", matrix.astype(np.float32))
                put(f"{folder}/words/{name}", record.word_attention(name).astype(np.float32))
        for number, count in hypotheses.items():
            if count > 1:
                put(f"{number}/hypotheses", np.array(count))
        put("ids", np.array(ids, dtype=np.int64))
