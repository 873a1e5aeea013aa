"""Reads and writes word alignments: Pharaoh files, and gold alignments in the format of WPT 2003.

A link is a pair (i, j) of source word i and target word j, counted from 0.
"""

from __future__ import annotations

import re
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import iter_lines
from fairseq_attn_plugin.writing import PathLike

Link = Tuple[int, int]
_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")
_WPT = re.compile(r"([0-9]+)\s+([0-9]+)\s+([0-9]+)(?:\s+([SP]))?(?:\s+[0-9.]+)?")
MOST_SENTENCES = 10**7  # of a corpus of unknown size: a mistyped number must not fill the memory
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


def format_alignment(alignment: GoldAlignment) -> str:
    """The Pharaoh line of an alignment, ordered by source word, then by target word."""
    return " ".join(f"{i}{'-' if (i, j) in alignment.sure else 'p'}{j}" for i, j in sorted(alignment.possible))


def add_gold_options(parser: Any, help: str, required: bool = False) -> None:
    """Adds ``--gold`` and ``--one-based``, arguments of :func:`read_gold`."""
    parser.add_argument(
        "--gold",
        required=required,
        metavar="FILE",
        help=f"{help}: i-j or ipj (possible) in a line, or format of WPT 2003",
    )
    parser.add_argument("--one-based", action="store_true", help="a gold file of links i-j counts words from 1")


def read_gold(
    path: PathLike,
    one_based: bool = False,
    lengths: Optional[Lengths] = None,
    sentences: int = 0,
) -> List[GoldAlignment]:
    """Reads the gold alignments of a corpus, sentence by sentence.

    Args:
        path: a file in one of two formats, as its first line that is not empty says. That of Pharaoh has a line
            ``0-0 1p2`` for each sentence pair. That of the WPT 2003 shared task (Mihalcea and Pedersen, "An Evaluation
            Exercise for Word Alignment") has a line ``0001 3 4 S`` for each link: sentence, source word and target
            word, all counted from 1, then S (sure, the default) or P (possible). Word 0 stands for no word; its links
            are skipped
        one_based: a Pharaoh file counts words from 1
        lengths: number of source and target words of every sentence of the corpus, None where unknown
        sentences: number of sentences of the corpus, used if ``lengths`` is None

    Returns:
        links counted from 0. A WPT file lacks sentences without links, so the result has as many sentences as
        ``lengths``, or at least ``sentences``

    Raises:
        OptionError: the file cannot be read, has a malformed line or a link beyond its sentence (the message names the
            line), or has another number of sentences than the corpus
    """
    lines = list(iter_lines(path))
    wpt = _WPT.fullmatch(next((line.strip() for line in lines if line.strip()), "")) is not None
    gold: List[GoldAlignment] = []
    found: List[Tuple[Set[Link], Set[Link]]] = [(set(), set()) for _ in lengths or range(sentences)]
    for number, line in enumerate(lines, 1):
        try:
            if not wpt:
                gold.append(parse_alignment(line, int(one_based)))
                if lengths is not None and number <= len(lengths):
                    check_links(gold[-1].possible, lengths[number - 1], int(one_based))
            elif line.strip():
                _add_wpt(line.strip(), found, lengths)
        except ValueError as error:
            raise OptionError(f"{path}, line {number}: {error}") from None
    if wpt:
        return [GoldAlignment(frozenset(sure), frozenset(possible)) for sure, possible in found]
    if lengths is not None and len(gold) != len(lengths):
        raise OptionError(f"{path}: has {len(gold)} lines, the corpus has {len(lengths)} sentences")
    return gold


def _add_wpt(line: str, found: List[Tuple[Set[Link], Set[Link]]], lengths: Optional[Lengths]) -> None:
    """Adds the link of a WPT line to those of its sentence; raises ``ValueError`` with the reason if it is wrong."""
    match = _WPT.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} must be a link in WPT's format: sentence, source word, target word, S or P")
    sentence, source, target = (int(match[group]) for group in (1, 2, 3))
    if not 1 <= sentence <= (MOST_SENTENCES if lengths is None else len(lengths)):
        right = f"at most {MOST_SENTENCES}" if sentence else "at least 1"
        if lengths is not None:
            right = f"from 1 to {len(lengths)}, the sentences of the corpus"
        raise ValueError(f"sentence {sentence}: must be {right}")
    found.extend((set(), set()) for _ in range(sentence - len(found)))
    if source and target:
        link = (source - 1, target - 1)
        check_links([link], lengths[sentence - 1] if lengths is not None else None, 1)
        sure, possible = found[sentence - 1]
        possible.add(link)
        if match[4] != "P":
            sure.add(link)


REMEDY = "; if the file counts from 1, give --one-based"


def check_links(links: Iterable[Link], length: Optional[Tuple[int, int]], first: int = 0, remedy: str = REMEDY) -> None:
    """Raises ``ValueError`` for a link to a word beyond the end of its sentence.

    Args:
        links: counted from 0
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
