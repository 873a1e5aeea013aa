"""Writes records to a file, and resumes an interrupted extraction."""

import contextlib
import json
import os
from pathlib import Path
from typing import Iterator

import numpy as np

from fairseq_attn_plugin.analysis.records.files import header_line, parse_header, partial_path, to_line
from fairseq_attn_plugin.analysis.records.record import SUFFIX, Header, Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike, open_alone


class RecordWriter:
    """Writes sentences one by one, and resumes after the last sentence of an interrupted run with the same header.

    Until :meth:`finish` the sentences lie in ``PATH.unfinished``. ``done`` is the number of sentences that an earlier
    run wrote there; ``next`` is the corpus number of the first sentence to write.

    Args:
        path: file to write, ``.jsonl``
        header: of the extraction
        replace: discard the unfinished file of another extraction, or a damaged one
        resume: go on after an interrupted run; False always starts from the beginning

    Raises:
        OptionError: the suffix is wrong, the file cannot be written, another process is writing it, or the unfinished
            file belongs to another extraction
    """

    def __init__(self, path: PathLike, header: Header, replace: bool = False, resume: bool = True):
        self.path, self.header = Path(path), header
        if self.path.suffix != SUFFIX:
            raise OptionError(f"--out {path}: must end in {SUFFIX}, the one format of extracted attention")
        self.partial = partial_path(path)
        self.done = self.next = 0
        self._written = False
        with self._writing():
            self._stream = open_alone(self.partial, f"--out {self.path}")
            try:
                self._stream.seek(0)
                whole = self._recover() if resume else 0
            except OptionError:
                if not replace:
                    self._stream.close()
                    raise
                whole = self.done = self.next = 0
            self._stream.truncate(whole)
            self._stream.seek(whole)
            if not whole:
                self._put(header_line(header))

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        """A context whose ``OSError`` becomes an ``OptionError``."""
        try:
            yield
        except OSError as error:
            raise OptionError(f"--out {self.path}: cannot be written: {error.strerror or error}") from None

    def _recover(self) -> int:
        """Counts the complete lines of an interrupted run; returns their number of bytes."""
        whole = sentences = 0
        last, theirs = b"", None
        for line in self._stream:
            if not line.endswith(b"\n"):
                break
            if not whole:
                theirs = parse_header(line.decode("utf-8", "replace"), self.partial)
            else:
                last, sentences = line, sentences + 1
            whole += len(line)
        if theirs is None or not sentences:
            return 0
        if not self.header.same_run(theirs):
            raise OptionError(
                f"--out {self.path}: {self.partial} holds an interrupted extraction of other options or another "
                "corpus; give the same options again, --overwrite, or another file"
            )
        try:
            self.done, self.next = sentences, int(json.loads(last)["id"]) + 1
        except (ValueError, KeyError, TypeError, RecursionError):
            raise OptionError(
                f"--out {self.path}: {self.partial} is damaged; give --overwrite to start again"
            ) from None
        return whole

    def write(self, record: Record) -> None:
        """Appends a sentence.

        Raises:
            ValueError: its matrices or scores do not fit its tokens
            OptionError: they are not numbers
        """
        shape = (len(record.target) + 1, len(record.source) + 1)
        # a score may be -inf: sparse alignments give words no probability
        finite = all(np.isfinite(matrix).all() for matrix in record.weights.values())
        if not finite or np.isnan(record.scores).any():
            raise OptionError(
                f"sentence {record.id} (from 0): its scores or weights are not numbers; the model's parameters are "
                "damaged, or its training has diverged"
            )
        for name, matrix in record.weights.items():
            if matrix.shape != shape or len(record.scores) not in (0, shape[0]):
                raise ValueError(f"sentence {record.id}: {name} is {matrix.shape}, its tokens are {shape}")
        self._written = True
        with self._writing():
            self._put(to_line(record))

    def _put(self, line: str) -> None:
        # a text that is not UTF-8 may have lone surrogates, which UTF-8 cannot encode
        self._stream.write(line.encode("utf-8", "backslashreplace") + b"\n")
        self._stream.flush()  # nothing is lost if the process is killed

    def close(self) -> None:
        """Closes the file and keeps its sentences for the next writer. A second call does nothing."""
        if self._stream.closed:
            return
        with self._writing(), contextlib.closing(self._stream):
            if not self.next and not self._written:  # it holds only a header
                self.partial.unlink(missing_ok=True)  # another writer may lock the file once it is closed

    def finish(self) -> None:
        """Moves everything to its final name, and closes the file: until then no other process can open it."""
        self._written = True  # an extraction may leave out every sentence; its file is complete all the same
        with contextlib.closing(self), self._writing():
            os.replace(self.partial, self.path)
