"""Records as JSON lines: the header in the first line, one sentence in each following line."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Dict, Iterator, List

import numpy as np

from fairseq_attn_plugin.analysis.records.record import DIGITS, FORMAT, Header, Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import SUBWORDS
from fairseq_attn_plugin.writing import PathLike


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
        if header.subwords not in SUBWORDS:
            raise ValueError
        return header
    except (ValueError, KeyError, TypeError, AttributeError):
        raise OptionError(
            f"{path}: must be a file of attn-analysis extract, with a header of format {FORMAT!r}"
        ) from None


def from_values(values: Dict[str, Any], header: Header) -> Record:
    """The record of a line's values; raises ``ValueError`` if they do not make one."""
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


def read_jsonl(path: Path, header: Header) -> Iterator[Record]:
    """Yields the records of a file; raises ``OptionError``, which names file and line, if it is damaged."""
    try:
        with open(path, encoding="utf-8") as stream:
            stream.readline()
            for number, line in enumerate(stream, 2):
                try:
                    record = from_values(json.loads(line), header)
                except ValueError:
                    raise OptionError(f"{path}, line {number}: must be a sentence with attention") from None
                yield record
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def header_line(header: Header) -> str:
    """The first line of a file, without its line end."""
    return json.dumps({"format": FORMAT, **asdict(header)}, ensure_ascii=False)


def to_line(record: Record) -> str:
    """The line of a record, without its line end; weights and scores have ``DIGITS`` decimals."""
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
