"""``Sentence``: what a reader of another program's output finds; :func:`record_of` checks it and makes a record."""

from __future__ import annotations

from typing import AbstractSet, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.errors import OptionError

__all__ = ["ENDS", "Files", "Sentence", "numbers_of", "record_of", "without_end"]

ENDS = ("</s>", "<eos>", "<EOS>", "<|endoftext|>", "[SEP]")  # what programs call the end of a sentence


class Files(NamedTuple):
    """The files of an import."""

    path: str  # the output of the other program
    source_text: Optional[str] = None  # in the tokens that the program read
    target_text: Optional[str] = None
    nbest: int = 1  # hypotheses of each sentence, if the output does not number them


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
    rank: int = 1


def record_of(sentence: Sentence, source: Sequence[str], subwords: str) -> Record:
    """The record of a sentence.

    A matrix may lack the row or the column of a sentence end, which is then zero. Links (i, j) become weights 1/k for
    the k source tokens of a target token j, and 1 for the end of the source if it has none.

    Args:
        sentence: as it was read
        source: its source tokens
        subwords: kind of both sides

    Raises:
        OptionError: matrix, links or scores do not match the tokens
    """
    left, right = without_end(source), without_end(sentence.target)
    if sentence.weights is not None:
        matrix = _fitted(sentence.weights, len(right), len(left), sentence.where)
    else:
        matrix = _of_links(sentence.links or set(), len(right), len(left), sentence.where)
    scores = list(sentence.scores)
    if len(scores) not in (0, len(right) + 1):
        raise OptionError(
            f"{sentence.where}: has {len(scores)} scores for {len(right)} target tokens and the end; must have "
            f"{len(right) + 1}"
        )
    weights = {"attention": matrix}
    return Record(sentence.number, left, right, weights, scores, subwords, sentence.reference, sentence.rank)


def without_end(tokens: Sequence[str]) -> List[str]:
    """The tokens without the symbol of the sentence's end, if it is the last one."""
    return list(tokens[:-1] if tokens and tokens[-1] in ENDS else tokens)


def numbers_of(texts: Sequence[str], where: str) -> List[float]:
    """Decimal numbers; raises ``OptionError``, which names ``where``, for anything else."""
    try:
        return [float(text) for text in texts]
    except ValueError:
        wrong = next(text for text in texts if not _is_number(text))
        raise OptionError(f"{where}: {wrong[:40]!r} must be a number") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _fitted(weights: np.ndarray, rows: int, columns: int, where: str) -> np.ndarray:
    """The matrix with both ends, ``[rows + 1, columns + 1]``."""
    found = np.asarray(weights, dtype=np.float32)
    fits = _fits(found.shape, rows, columns)
    if not fits:
        turned = _fits(found.shape[::-1], rows, columns)
        raise OptionError(
            f"{where}: attention is {' x '.join(map(str, found.shape))}, the sentence has {rows} target and {columns} "
            "source tokens" + ("; rows must be target tokens" if turned else " (each side may have one more, its end)")
        )
    if not ((found >= 0) & (found < np.inf)).all():
        raise OptionError(f"{where}: attention must not be negative or infinite")
    return np.pad(found, ((0, rows + 1 - found.shape[0]), (0, columns + 1 - found.shape[1])))


def _fits(shape: Tuple[int, ...], rows: int, columns: int) -> bool:
    return len(shape) == 2 and shape[0] - rows in (0, 1) and shape[1] - columns in (0, 1)


def _of_links(links: AbstractSet[Link], rows: int, columns: int, where: str) -> np.ndarray:
    matrix = np.zeros((rows + 1, columns + 1), dtype=np.float32)
    for source, target in sorted(links):
        if not (0 <= source <= columns and 0 <= target <= rows):
            raise OptionError(
                f"{where}: link {source}-{target}: the sentence has {columns} source and {rows} target tokens, counted "
                "from 0 (each side may have one more, its end)"
            )
        matrix[target, source] = 1
    matrix[matrix.sum(axis=1) == 0, columns] = 1
    return matrix / matrix.sum(axis=1, keepdims=True)
