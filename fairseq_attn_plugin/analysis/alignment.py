"""Word alignments: Pharaoh files, from subword attention to word links, alignment error rate.

A link is a pair (i, j): source word i and target word j, counted from 0.  Attention matrices are T x N: one
row per target position, one column per source position; rows need not sum to one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Iterable, List, NamedTuple, Sequence, Set, Tuple, Union

import numpy as np

from fairseq_attn_plugin.errors import OptionError

Link = Tuple[int, int]
PathLike = Union[str, "os.PathLike[str]"]
BPE_MARK = "@@"  # subword-nmt ends every piece of a word but the last with this
_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")


class GoldAlignment(NamedTuple):
    """Gold links of one sentence pair.  ``possible`` includes ``sure``."""

    sure: frozenset[Link]
    possible: frozenset[Link]


class Score(NamedTuple):
    """Alignment quality over a corpus, each a share between 0 and 1."""

    aer: float
    precision: float
    recall: float


def parse_alignment(line: str) -> GoldAlignment:
    """Read one Pharaoh line: ``i-j`` a sure link, ``ipj`` one that is only possible, separated by blanks.

    Raises ``ValueError``, with the offending item, if the line has anything else.
    """
    sure: Set[Link] = set()
    possible: Set[Link] = set()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is not a link; write i-j (sure) or ipj (possible), counted from 0")
        link = (int(match[1]), int(match[3]))
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldAlignment(frozenset(sure), frozenset(possible))


def format_alignment(alignment: GoldAlignment) -> str:
    """The Pharaoh line of an alignment, ordered by source word, then target word."""
    return " ".join(f"{i}{'-' if (i, j) in alignment.sure else 'p'}{j}" for i, j in sorted(alignment.possible))


def read_alignments(path: PathLike) -> List[GoldAlignment]:
    """One alignment per line; an empty line is a sentence pair without links.

    Raises ``OptionError`` naming the file, and the line where there is one, if it cannot be read.
    """
    alignments: List[GoldAlignment] = []
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                try:
                    alignments.append(parse_alignment(line))
                except ValueError as error:
                    raise OptionError(f"{path}, line {number}: {error}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot read alignments: {error}") from None
    return alignments


def write_alignments(path: PathLike, alignments: Iterable[GoldAlignment]) -> None:
    """Write one Pharaoh line per alignment."""
    Path(path).write_text("".join(format_alignment(item) + "\n" for item in alignments), encoding="utf-8")


def word_of_subword(tokens: Sequence[str], mark: str = BPE_MARK) -> List[int]:
    """Index of the word that each subword belongs to: ``['a@@', 'b', 'c']`` gives ``[0, 0, 1]``."""
    words, word = [], 0
    for token in tokens:
        words.append(word)
        word += not token.endswith(mark)
    return words


def merge_subwords(tokens: Sequence[str], mark: str = BPE_MARK) -> List[str]:
    """The words that the subwords spell."""
    words = [""] * (word_of_subword(tokens, mark)[-1] + 1 if tokens else 0)
    for token, word in zip(tokens, word_of_subword(tokens, mark)):
        words[word] += token[: -len(mark)] if token.endswith(mark) else token
    return words


def merge_attention(
    weights: np.ndarray, source_tokens: Sequence[str], target_tokens: Sequence[str], mark: str = BPE_MARK
) -> np.ndarray:
    """Word-level attention from subword ``weights`` [T, N]: sum over the subwords of a source word, mean
    over those of a target word.  Rows that summed to one still do.

    Positions beyond the tokens given (end of sentence) are cut off, whether rows, columns or both.
    Raises ``ValueError`` if ``weights`` has fewer rows or columns than there are tokens.
    """
    weights = np.asarray(weights, dtype=float)
    rows, columns = len(target_tokens), len(source_tokens)
    if weights.ndim != 2 or weights.shape[0] < rows or weights.shape[1] < columns:
        raise ValueError(f"attention of shape {weights.shape} does not cover {rows} target and {columns} source tokens")
    return merge_weights(
        weights[:rows, :columns], word_of_subword(source_tokens, mark), word_of_subword(target_tokens, mark)
    )


def merge_weights(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> np.ndarray:
    """As :func:`merge_attention` where the words [N] and [T] that the columns and rows belong to are known.

    They count up from 0 without gaps. Columns and rows beyond them are cut off.
    """
    to_source = np.zeros((len(source_words), source_words[-1] + 1 if source_words else 0))
    to_source[np.arange(len(source_words)), source_words] = 1
    to_target = np.zeros((target_words[-1] + 1 if target_words else 0, len(target_words)))
    to_target[target_words, np.arange(len(target_words))] = 1
    to_target /= to_target.sum(axis=1, keepdims=True)
    return to_target @ np.asarray(weights, dtype=float)[: len(target_words), : len(source_words)] @ to_source


def hard_alignment(weights: np.ndarray) -> Set[Link]:
    """For each target word its source word of greatest weight, the first one if several tie.

    ``weights`` [T, N] are over words, without end of sentence (see ``merge_attention``).
    """
    weights = np.asarray(weights)
    if weights.size == 0:
        return set()
    return {(int(source), target) for target, source in enumerate(weights.argmax(axis=1))}


def alignment_error_rate(predicted: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]) -> Score:
    """AER = 1 - (|A n S| + |A n P|) / (|A| + |S|), precision |A n P| / |A|, recall |A n S| / |S|.

    A are the predicted links, S the sure ones, P the possible ones (which include S); the counts are summed
    over the corpus (Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models", 2003).
    With no predicted links precision is 1, with no sure links recall is 1, and with neither AER is 0.
    Raises ``ValueError`` if the two have different numbers of sentences.
    """
    if len(predicted) != len(gold):
        raise ValueError(f"{len(predicted)} predicted alignments, but {len(gold)} gold ones")
    links = sure = hit_sure = hit_possible = 0
    for sentence, reference in zip(predicted, gold):
        answer = set(sentence)
        links += len(answer)
        sure += len(reference.sure)
        hit_sure += len(answer & reference.sure)
        hit_possible += len(answer & (reference.possible | reference.sure))
    aer = 1 - (hit_sure + hit_possible) / (links + sure) if links + sure else 0.0
    return Score(aer, hit_possible / links if links else 1.0, hit_sure / sure if sure else 1.0)
