"""The outputs of other programs that ``fairseq-attn import`` reads, each by a function that yields :class:`Sentence`.

``marian``: output of ``marian-decoder --alignment soft`` (or ``hard``), also with ``--word-scores``::

    ein haus ||| 0.9,0.1,0 0.2,0.7,0.1 0,0.1,0.9                                          soft: a group for each token
    ein haus ||| 0-0 1-1 2-2                                                              hard

Groups are target tokens and the end, numbers in a group are source tokens and the end (as in Marian 1.11).

``pharaoh``: word alignments, ``0-0 1-1`` in each line, of fast_align, eflomal, awesome-align and others.

``huggingface``: a JSON form of this package, for any program, with a sentence in each line::

    {"source": ["▁ein", "▁haus", "</s>"], "target": ["▁a", "▁house", "</s>"],
     "attention": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]}

``attention`` has a row for each target token and a number for each source token. The last token of a side may be its
end; without it, a last row or column that no token has is the end's. A sentence may have ``scores`` (natural log
probabilities of the target tokens and the end) and a ``reference`` (words).
"""

from __future__ import annotations

import json
import re
from itertools import zip_longest
from typing import (
    AbstractSet,
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
)

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import Link, parse_alignment
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import numbered_lines, tokens

LONGEST = 2**28  # characters of a line: the matrix of 4,000 x 4,000 tokens
BAR = "|||"
_LINKS = re.compile(r"(\d+-\d+)?( \d+-\d+)*")
_WORD_SCORES = "WordScores="
_One = TypeVar("_One")


class Files(NamedTuple):
    """The files of an import."""

    path: str  # the output of the other program
    source_text: Optional[str] = None  # in the tokens that the program read
    target_text: Optional[str] = None


class Sentence(NamedTuple):
    """A sentence pair of another program. It has either ``weights`` or ``links``."""

    where: str  # file and line, for messages
    number: int  # in the corpus, from 0
    target: List[str]
    source: Optional[List[str]] = None  # None: the line of --source-text
    weights: Optional[np.ndarray] = None  # [T, N], with or without the ends of the sentences
    links: Optional[AbstractSet[Link]] = None  # (source token, target token) from 0; token N or T is the end
    scores: Sequence[float] = ()  # natural log probabilities
    reference: Optional[str] = None  # words


def beside(found: Iterable[_One], path: str, option: str, text: str) -> Iterator[Tuple[_One, List[str]]]:
    """Yields each sentence of a file with the tokens of its line in a text, one at a time.

    Args:
        found: the sentences
        path: their file
        option: that names the text
        text: its path

    Raises:
        OptionError: the text has another number of lines, or white space that does not separate tokens everywhere
    """
    lines = numbered_lines(text, LONGEST, f"{option} {text}")
    for number, (one, line) in enumerate(zip_longest(found, lines)):
        if one is None:
            raise OptionError(f"{path}: has {number} sentences, {option} {text} has more lines; must be of one corpus")
        if line is None:
            raise OptionError(f"{path}: has more than {number} sentences, {option} {text} has {number} lines")
        try:
            side = tokens(line[1])
        except ValueError as error:
            raise OptionError(f"{line[0]}: {error}") from None
        yield one, side


def numbers_of(texts: Sequence[str], where: str) -> List[float]:
    """Decimal numbers; raises ``OptionError``, which names ``where``, for anything else."""
    numbers = []
    for text in texts:
        try:
            numbers.append(float(text))
        except ValueError:
            raise OptionError(f"{where}: {text[:40]!r} must be a number") from None
    return numbers


def read_marian(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names the line, if one has another form."""
    for number, (where, line) in enumerate(numbered_lines(files.path, LONGEST)):
        fields = [field.strip() for field in line.split(BAR)]
        scores: List[float] = []
        if fields[-1].startswith(_WORD_SCORES):
            scores = numbers_of(fields.pop()[len(_WORD_SCORES) :].split(), where)
        if len(fields) < 2:
            raise OptionError(
                f"{where}: must be TRANSLATION {BAR} ALIGNMENT, as marian-decoder --alignment soft writes"
            )
        target = f" {BAR} ".join(fields[:-1]).split()
        weights, links = _alignment(fields[-1], where)
        yield Sentence(where, number, target, weights=weights, links=links, scores=scores)


def _alignment(text: str, where: str) -> Tuple[Optional[np.ndarray], Optional[frozenset]]:
    if _LINKS.fullmatch(text):
        return None, parse_alignment(text).possible
    rows = [numbers_of(group.split(","), where) for group in text.split()]
    if len({len(row) for row in rows}) > 1:
        raise OptionError(f"{where}: the groups of weights have different lengths")
    return np.array(rows), None


def read_pharaoh(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names the line, if it is no list of links."""
    lines = numbered_lines(files.path, LONGEST)
    pairs = beside(lines, files.path, "--target-text", files.target_text or "")
    for number, ((where, line), target) in enumerate(pairs):
        try:
            links = parse_alignment(line).possible
        except ValueError as error:
            raise OptionError(f"{where}: {error}") from None
        yield Sentence(where, number, target, links=links)


def read_hugging_face(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names the line, for another form."""
    lines = (one for one in numbered_lines(files.path, LONGEST) if one[1].strip())
    for number, (where, line) in enumerate(lines):
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise OptionError(f"{where}: must be a JSON object, a sentence in each line (of a list: jq -c .[])")
        yield _sentence(values, where, number)


def _sentence(values: Any, where: str, number: int) -> Sentence:
    try:
        source, target = _strings(values["source"]), _strings(values["target"])
        weights = np.array(values["attention"], dtype=float)
        scores = np.array(values.get("scores", []), dtype=float)
        reference = values.get("reference")
        if scores.ndim != 1 or not (scores < np.inf).all() or not isinstance(reference, (str, type(None))):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OptionError(
            f"{where}: must have source and target, lists of tokens, and attention, a row of numbers for each target "
            "token; scores are a list of numbers, a reference is a text"
        ) from None
    if not target and weights.size == 0:
        weights = np.zeros((0, len(source)))
    return Sentence(where, number, target, source, weights, None, scores.tolist(), reference)


def _strings(values: Any) -> List[str]:
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError
    return values


class Format(NamedTuple):
    """How a program's output is read."""

    read: Callable[[Files], Iterator[Sentence]]
    needs: str = ""  # texts without which a sentence lacks a side: "", "source", or "source target"
    hint: str = ""  # the usual reason for a matrix that does not match its sentence


FORMATS: Dict[str, Format] = {
    "marian": Format(read_marian, "source", "with a .spm vocabulary, run marian-decoder with --no-spm-decode"),
    "huggingface": Format(read_hugging_face),
    "pharaoh": Format(read_pharaoh, "source target"),
}
