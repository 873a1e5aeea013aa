"""Whether a line has several sentences, for notes to users."""

import re

__all__ = ["SEVERAL", "has_several_sentences"]

SEVERAL = (
    "several sentences; a model that has learned single sentences may leave out what follows the first one: give each "
    "sentence a line"
)

# a word, the mark that ends it, and the first letter of the next word; tokens may stand apart
_END = re.compile(r"(\w+)[^\w\s]*\s*([.!?…])[^\w.!?…]*\s[^\w.!?…]*(\w)")
SHORT = 3  # letters of a word before a full stop that may be an abbreviation, as in Dr. and Nr.


def has_several_sentences(line: str) -> bool:
    """Whether a sentence seems to begin after the end of another one: a capital letter after a mark, or any text after
    a mark of Chinese and Japanese."""
    if re.search(r"[。！？]\W*\w", line):
        return True
    ends = (match.groups() for match in _END.finditer(line))
    return any(first.isupper() and (mark != "." or len(word) > SHORT) for word, mark, first in ends)
