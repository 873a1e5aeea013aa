"""Word alignments of a corpus in the indices of its subwords, as fairseq's ``--align-suffix`` wants them, and back.

A link is a pair (i, j): source word i and target word j, counted from 0. In subwords all pieces of a source word are
linked to all pieces of the target words that it is linked to; the other way two words are linked where any of their
pieces are. fairseq takes no indices on trust: a sentence with one that lies beyond its end is trained without its
links, so that everything is checked here, where the line can still be named.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Dict, Iterable, Iterator, List, NamedTuple, Sequence, Set, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import Link, parse_alignment
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import word_count, words_of
from fairseq_attn_plugin.writing import PathLike, whole_text

__all__ = ["Counts", "check_file", "convert_file", "read_links", "to_subwords", "to_words"]


class Counts(NamedTuple):
    """What a file of alignments held."""

    sentences: int
    links: int  # written (of a check: read)
    unaligned: int  # sentences without links
    possible: int  # links left out because they were only possible


def to_subwords(links: Iterable[Link], source_words: Sequence[int], target_words: Sequence[int]) -> List[Link]:
    """Links between the pieces of linked words, in order.

    ``source_words`` and ``target_words`` are those of :func:`words_of`. Raises ``ValueError`` for a link to a word that
    the sentence does not have.
    """
    links = set(links)
    _check_range(links, word_count(source_words), word_count(target_words), "words")
    pieces: Tuple[Dict[int, List[int]], ...] = ({}, {})
    for side, words in zip(pieces, (source_words, target_words)):
        for piece, word in enumerate(words):
            side.setdefault(word, []).append(piece)
    return sorted((i, j) for word, other in links for i in pieces[0][word] for j in pieces[1][other])


def to_words(links: Iterable[Link], source_words: Sequence[int], target_words: Sequence[int]) -> List[Link]:
    """Links between words of which any pieces are linked, in order; the inverse of :func:`to_subwords`.

    Raises ``ValueError`` for a link to a piece that the sentence does not have.
    """
    links = set(links)
    _check_range(links, len(source_words), len(target_words), "subwords")
    return sorted({(source_words[i], target_words[j]) for i, j in links})


def _check_range(links: Set[Link], source: int, target: int, unit: str) -> None:
    for i, j in sorted(links):
        for side, index, length in (("source", i, source), ("target", j, target)):
            if index >= length:
                fits = all(b < source and a < target for a, b in links)
                raise ValueError(
                    f"link {i}-{j}: the {side} has {length} {unit}, counted from 0"
                    + ("; the other way round all links of the line would fit, see --reverse" if fits else "")
                )


def convert_file(
    alignments: PathLike,
    source: PathLike,
    target: PathLike,
    out: PathLike,
    subwords: str = "bpe",
    reverse: bool = False,
    keep_possible: bool = False,
    words: bool = False,
) -> Counts:
    """Writes the alignments of a corpus in the indices of its subwords.

    Args:
        alignments: one line for each sentence pair, of links ``i-j`` between words (``ipj``: only possible), as
            fast_align and eflomal write them
        source: the source side, split into subwords
        target: the target side, split into subwords
        out: what to write; it appears when it is complete
        subwords: how words were split, one of ``SUBWORDS``
        reverse: the links are ``j-i``, target word first
        keep_possible: take possible links for sure ones, instead of leaving them out
        words: the other way round, from links between subwords to links between words

    Raises:
        OptionError: a file cannot be read, has more or fewer lines than the others, has no link at all, or has a line
            that is no alignment of its sentence; file and line are named
    """
    change = to_words if words else to_subwords
    written = unaligned = possible = number = 0
    with whole_text(out, f"{out}: cannot write the alignments") as stream:
        for number, links, skipped, tokens in _read(alignments, source, target, reverse, keep_possible):
            sides = [words_of(side, subwords) for side in tokens]
            with _named(alignments, number):
                changed = change(links, *sides)
            stream.write(" ".join(f"{i}-{j}" for i, j in changed) + "\n")
            written += len(changed)
            unaligned += not changed
            possible += skipped
        if number and not written:
            raise OptionError(
                f"{alignments}: links no word of any of its {number} sentences"
                + (f", but for {possible} links that are only possible; keep them" if possible else "")
            )
    return Counts(number, written, unaligned, possible)


def check_file(alignments: PathLike, source: PathLike, target: PathLike) -> Counts:
    """Checks alignments that are in the indices of subwords already, and changes nothing.

    Raises ``OptionError`` as :func:`convert_file` does, also for possible links, which fairseq cannot read.
    """
    links = unaligned = number = 0
    for number, found, possible, tokens in _read(alignments, source, target, reverse=False, keep_possible=False):
        with _named(alignments, number):
            if possible:
                raise ValueError("possible links (ipj) are none that fairseq can read; write i-j")
            _check_range(found, len(tokens[0]), len(tokens[1]), "subwords")
        links += len(found)
        unaligned += not found
    return Counts(number, links, unaligned, 0)


def read_links(
    alignments: PathLike, source: PathLike, target: PathLike, keep_possible: bool = False
) -> Iterator[Tuple[List[Link], List[str], List[str]]]:
    """Links, source tokens and target tokens of every sentence pair, line by line; the links are of these tokens.

    Raises ``OptionError`` as :func:`convert_file` does, but for a file without links.
    """
    for number, links, _, (left, right) in _read(alignments, source, target, False, keep_possible):
        with _named(alignments, number):
            _check_range(links, len(left), len(right), "tokens")
        yield sorted(links), left, right


class _named:
    """Turns ``ValueError`` into an ``OptionError`` that names the line."""

    def __init__(self, path: PathLike, number: int):
        self.where = f"{path}, line {number}"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, ValueError):
            raise OptionError(f"{self.where}: {error}") from None


def _read(
    alignments: PathLike, source: PathLike, target: PathLike, reverse: bool, keep_possible: bool
) -> Iterator[Tuple[int, Set[Link], int, Tuple[List[str], List[str]]]]:
    """Line number, links, number of possible links left out and the tokens of both sides, line by line."""
    for number, lines in _parallel([alignments, source, target]):
        with _named(alignments, number):
            alignment = parse_alignment(lines[0])
        links = alignment.possible if keep_possible else alignment.sure
        if reverse:
            links = frozenset((j, i) for i, j in links)
        yield number, set(links), len(alignment.possible) - len(links), (lines[1].split(), lines[2].split())


def _parallel(paths: Sequence[PathLike]) -> Iterator[Tuple[int, List[str]]]:
    """The lines of files side by side, numbered from 1, in constant memory."""
    with ExitStack() as stack:
        try:
            streams = [stack.enter_context(open(path, encoding="utf-8")) for path in paths]
        except OSError as error:
            raise OptionError(f"{error.filename}: cannot be read: {error.strerror}") from None
        bar = stack.enter_context(tqdm(unit=" lines", disable=None))
        number = 0
        while True:
            lines = []
            for path, stream in zip(paths, streams):
                try:
                    lines.append(stream.readline())
                except UnicodeDecodeError as error:
                    raise OptionError(f"{path}: is not UTF-8 after line {number}: {error.reason}") from None
            if not any(lines):
                return
            if not all(lines):
                short = [str(path) for path, line in zip(paths, lines) if not line]
                longer = next(str(path) for path, line in zip(paths, lines) if line)
                raise OptionError(
                    f"{' and '.join(short)}: ends after line {number}, {longer} goes on; each line is a sentence pair"
                )
            number += 1
            bar.update()
            yield number, lines
