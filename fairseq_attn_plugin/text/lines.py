"""Lines of files that may be anything: a line is bounded before it is in memory."""

from __future__ import annotations

import re
from typing import Iterator, List, TextIO

__all__ = ["LONGEST", "LineTooLong", "bounded_lines", "tokens"]

LONGEST = 2**26  # characters: a document of ten million words


OTHER_SPACE = re.compile(r"[^\S \t]")


def tokens(line: str) -> List[str]:
    """The tokens of a line whose links or lengths count them, where all programs count alike.

    Raises:
        ValueError: the line has white space at which fairseq splits words, and aligners do not: a no-break space, a
            carriage return within the line
    """
    other = OTHER_SPACE.search(line.rstrip("\r\n"))
    if other is not None:
        raise ValueError(
            f"has the white space U+{ord(other.group()):04X}, which ends a word for fairseq and not for aligners; "
            "replace it by a space before the text is aligned"
        )
    return line.split()


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
