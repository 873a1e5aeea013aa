"""Lines of the files of an import: one by one, with their numbers."""

from __future__ import annotations

from typing import Iterator, List, Optional, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import LineTooLong, bounded_lines, tokens

__all__ = ["Text", "numbered_lines"]

LONGEST = 2**28  # characters: the matrix of 4,000 x 4,000 tokens


def numbered_lines(path: str) -> Iterator[Tuple[str, str]]:
    """Yields (``PATH, line 3``, the line without its end); raises ``OptionError`` if the file cannot be read."""
    number = 0
    try:
        with open(path, encoding="utf-8-sig", newline="\n") as stream:
            for number, line in enumerate(bounded_lines(stream, LONGEST), 1):
                yield f"{path}, line {number}", line.rstrip("\r\n")
    except LineTooLong as error:
        raise OptionError(f"{path}, line {number + 1}: {error}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: is not UTF-8 after line {number}: {error.reason}") from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None


class Text:
    """The lines of a text, asked for by number in ascending order, so that one is in memory at a time."""

    def __init__(self, option: str, path: str):
        self.name = f"{option} {path}"
        self._lines, self._number, self._line = numbered_lines(path), -1, ""

    def line(self, number: int, where: str) -> str:
        """Line ``number``, from 0; raises ``OptionError``, which starts with ``where``, if the text is shorter."""
        while self._number < number:
            line = self._next()
            if line is None:
                raise OptionError(f"{where}: is of sentence {number + 1}; {self.name} has {self._number + 1} lines")
            self._line = line
        return self._line

    def tokens(self, number: int, where: str) -> List[str]:
        """The tokens of a line; raises ``OptionError`` for white space that does not separate tokens everywhere."""
        try:
            return tokens(self.line(number, where))
        except ValueError as error:
            raise OptionError(f"{self.name}, line {number + 1}: {error}") from None

    def check_end(self, path: str) -> None:
        """Raises ``OptionError`` if lines are left."""
        count = self._number + 1
        if self._next() is not None:
            raise OptionError(f"{path}: has {count} sentences, {self.name} has more lines; they must be of one corpus")

    def _next(self) -> Optional[str]:
        for _, line in self._lines:
            self._number += 1
            return line
        return None
