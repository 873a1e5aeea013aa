"""The outputs of other programs that ``fairseq-attn import`` reads, each by a function that yields :class:`Sentence`.

``marian``: output of ``marian-decoder --alignment soft`` (or ``hard``), also with ``--word-scores``::

    ein haus ||| 0.9,0.1,0 0.2,0.7,0.1 0,0.1,0.9                                          soft: a group for each token
    ein haus ||| 0-0 1-1 2-2                                                              hard

Groups are target tokens and the end, numbers in a group are source tokens and the end (as in Marian 1.11).

``pharaoh``: word alignments, ``0-0 1-1`` in each line, of fast_align, eflomal, awesome-align and others.

``huggingface``: a JSON form of this package, for any program: a list of sentences, or one in each line::

    [{"source": ["▁ein", "▁haus", "</s>"], "target": ["▁a", "▁house", "</s>"],
      "attention": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]}]

``attention`` has a row for each target token and a number for each source token. The last token of a side may be its
end; without it, a last row or column that no token has is the end's. A sentence may have ``scores`` (natural log
probabilities of the target tokens and the end) and a ``reference`` (words).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import AbstractSet, Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import Link, parse_alignment
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import numbered_lines, tokens

LONGEST = 2**28  # characters of a line: the matrix of 4,000 x 4,000 tokens
BAR = "|||"
_LINKS = re.compile(r"(\d+-\d+)?( \d+-\d+)*")
_WORD_SCORES = "WordScores="


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


class Text:
    """The lines of a text, asked for by number in ascending order, so that one is in memory at a time."""

    def __init__(self, option: str, path: str):
        self.name = f"{option} {path}"
        self._lines, self._number, self._line = numbered_lines(path, LONGEST), -1, ""

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
    assert files.target_text is not None
    text = Text("--target-text", files.target_text)
    for number, (where, line) in enumerate(numbered_lines(files.path, LONGEST)):
        try:
            links = parse_alignment(line).possible
        except ValueError as error:
            raise OptionError(f"{where}: {error}") from None
        yield Sentence(where, number, text.tokens(number, where), links=links)
    text.check_end(files.path)


def read_hugging_face(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names line or sentence, for another form."""
    for number, (where, values) in enumerate(_objects(files.path)):
        yield _sentence(values, where, number)


def _objects(path: str) -> Iterator[Tuple[str, Any]]:
    """The sentences of a list, which is read in full, or of lines."""
    lines = False
    for where, line in numbered_lines(path, LONGEST):
        if not line.strip():
            continue
        if not lines and line.lstrip().startswith("["):
            break
        lines = True
        try:
            yield where, json.loads(line)
        except (ValueError, RecursionError):
            raise OptionError(f"{where}: must be a JSON object, or the file a list of them") from None
    if lines:
        return
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path}: must be a JSON list of sentences: {error}") from None
    for number, values in enumerate(found):
        yield f"{path}, sentence {number}", values


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
