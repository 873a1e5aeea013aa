"""Reads and writes word alignments in the format of Pharaoh.

A link is a pair (i, j) of source word i and target word j, counted from 0.
"""

import re
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import iter_lines
from fairseq_attn_plugin.writing import PathLike

Link = Tuple[int, int]
_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")
Lengths = Sequence[Optional[Tuple[int, int]]]


class GoldAlignment(NamedTuple):
    """Gold links of one sentence pair; ``possible`` includes ``sure``."""

    sure: frozenset[Link]
    possible: frozenset[Link]


def parse_alignment(line: str, first: int = 0) -> GoldAlignment:
    """Reads one Pharaoh line: ``i-j`` is a sure link, ``ipj`` a possible one; blanks separate links.

    The line counts words from ``first``, the result counts them from 0. Raises ``ValueError``, with the offending item,
    if the line has anything else.
    """
    sure: Set[Link] = set()
    possible: Set[Link] = set()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} must be a link i-j (sure) or ipj (possible), counted from {first}")
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise ValueError(f"{item!r} counts from 0, must count from {first}")
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible))


def add_gold_options(parser: Any, help: str, required: bool = False) -> None:
    """Adds ``--gold`` and ``--one-based``, arguments of :func:`read_gold`."""
    add = parser.add_argument
    add("--gold", required=required, metavar="FILE", help=f"{help}: i-j or ipj (possible) in a line for each sentence")
    add("--one-based", action="store_true", help="the gold file counts words from 1")


def check_gold_options(args: Any) -> None:
    """Raises ``OptionError`` for ``--one-based`` without ``--gold``."""
    if args.one_based and not args.gold:
        raise OptionError("--one-based: needs --gold FILE, whose words it counts")


REMEDY = "; if the file counts from 1, give --one-based"


def read_gold(
    path: PathLike, one_based: bool = False, lengths: Optional[Lengths] = None, remedy: str = REMEDY
) -> List[GoldAlignment]:
    """Reads the gold alignments of a corpus, sentence by sentence.

    Args:
        path: a file with a line ``0-0 1p2`` for each sentence pair
        one_based: the file counts words from 1; the result counts them from 0
        lengths: number of source and target words of every sentence of the corpus, None where unknown
        remedy: as for :func:`check_links`

    Raises:
        OptionError: the file cannot be read, has a malformed line or a link beyond its sentence (the message names the
            line), or has another number of sentences than the corpus
    """
    gold: List[GoldAlignment] = []
    for number, line in enumerate(iter_lines(path), 1):
        try:
            gold.append(parse_alignment(line, int(one_based)))
            if lengths is not None and number <= len(lengths):
                check_links(gold[-1].possible, lengths[number - 1], int(one_based), remedy)
        except ValueError as error:
            raise OptionError(f"{path}, line {number}: {error}") from None
    if lengths is not None and len(gold) != len(lengths):
        raise OptionError(f"{path}: has {len(gold)} lines, the corpus has {len(lengths)} sentences")
    return gold


def check_links(links: Iterable[Link], length: Optional[Tuple[int, int]], first: int = 0, remedy: str = REMEDY) -> None:
    """Raises ``ValueError`` for a link, counted from 0, to a word beyond the end of its sentence.

    Args:
        length: number of source and target words; None, if unknown, accepts every link
        first: number of the first word in the message
        remedy: end of the message where words are counted from 0
    """
    if length is None:
        return
    for link in sorted(links):
        for side, index, words in zip(("source", "target"), link, length):
            if index >= words:
                raise ValueError(
                    f"link {link[0] + first}-{link[1] + first}: the {side} has {words} words, counted from {first}"
                    + ("" if first else remedy)
                )
