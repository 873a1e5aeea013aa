"""Lines of files that may be anything: a line is bounded before it is in memory."""

from __future__ import annotations

from typing import Iterator, TextIO

__all__ = ["LONGEST", "LineTooLong", "bounded_lines"]

LONGEST = 2**26  # characters: a document of ten million words


class LineTooLong(ValueError):
    """A line has more characters than are read."""


def bounded_lines(stream: TextIO, longest: int = LONGEST) -> Iterator[str]:
    """The lines of a stream, with their ends; raises ``LineTooLong`` at a line of more than ``longest`` characters."""
    while True:
        line = stream.readline(longest + 1)
        if not line:
            return
        if len(line) > longest:
            raise LineTooLong(f"is longer than {longest} characters")
        yield line
