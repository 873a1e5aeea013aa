"""The options ``--sentences 3 17 20-25`` and ``--first N``, which select sentences of a corpus."""

from __future__ import annotations

import argparse
import re
from typing import List, Optional, Sequence

from fairseq_attn_plugin.errors import OptionError

_ITEM = re.compile(r"(\d+)(?:-(\d+))?")
_MOST = 10**7  # a mistyped range must not fill the memory


def add_sentence_options(parser: argparse.ArgumentParser, first: str) -> None:
    """Adds ``--sentences`` and ``--first``, which exclude each other; ``first`` is the default that the help names."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "--sentences",
        nargs="+",
        metavar="N",
        help="numbers of sentences, counted from 0, such as 3 17 20-25 or 3,17,20-25",
    )
    group.add_argument("--first", type=int, metavar="N", help=f"the first N sentences; 0: all (default: {first})")


def sentence_numbers(texts: Optional[Sequence[str]], option: str = "--sentences") -> Optional[List[int]]:
    """The numbers that ``--sentences`` names, each once, in the order given.

    ``["3", "5-7,0"]`` gives ``[3, 5, 6, 7, 0]``; None gives None. Raises ``OptionError``, which names ``option``, for
    an item that is not a number or a range.
    """
    if texts is None:
        return None
    numbers: List[int] = []
    for text in texts:
        for item in filter(None, text.replace(",", " ").split()):
            match = _ITEM.fullmatch(item)
            start, end = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if end < start:
                raise OptionError(f"{option} {item}: must be a number, from 0, or a range such as 20-25")
            if end - start >= _MOST:
                raise OptionError(f"{option} {item}: is a range of more than {_MOST} sentences")
            numbers.extend(range(start, end + 1))
    if not numbers:
        raise OptionError(f"{option}: name at least one sentence, as in 3 17 20-25")
    return list(dict.fromkeys(numbers))
