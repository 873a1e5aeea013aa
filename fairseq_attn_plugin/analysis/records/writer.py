"""Writes records into a file, and continues an interrupted one."""

from __future__ import annotations

import json
import os
from pathlib import Path

from fairseq_attn_plugin.analysis.records.jsonl import header_line, parse_header, partial_path, read_jsonl, to_line
from fairseq_attn_plugin.analysis.records.npz import write_npz
from fairseq_attn_plugin.analysis.records.record import SUFFIXES, Header, Record
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike, whole_file

__all__ = ["RecordWriter"]


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
                self._put(header_line(header))
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
                theirs = parse_header(line.decode("utf-8", "replace"), self.partial)
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
            self._put(to_line(record))
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
                write_npz(whole, self.header, read_jsonl(self.partial, self.header))
            self.partial.unlink()
        else:
            try:
                os.replace(self.partial, self.path)
            except OSError as error:
                raise self._failed(error) from None

    def _failed(self, error: Exception) -> OptionError:
        return OptionError(f"--out {self.path}: cannot be written: {getattr(error, 'strerror', None) or error}")
