"""Word alignments: Pharaoh files, from subword attention to word links, alignment error rate.

A link is a pair (i, j): source word i and target word j, counted from 0.  Attention matrices are T x N: one
row per target position, one column per source position; rows need not sum to one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

import numpy as np

from fairseq_attn_plugin.errors import OptionError

Link = Tuple[int, int]
PathLike = Union[str, "os.PathLike[str]"]
BPE_MARK = "@@"  # subword-nmt ends every piece of a word but the last with this
_LINK = re.compile(r"([0-9]+)([-p])([0-9]+)")
_WPT = re.compile(r"([0-9]+)\s+([0-9]+)\s+([0-9]+)(?:\s+([SP]))?(?:\s+[0-9.]+)?")
GOLD_FORMATS = ("auto", "pharaoh", "wpt")
Lengths = Sequence[Optional[Tuple[int, int]]]


class GoldAlignment(NamedTuple):
    """Gold links of one sentence pair.  ``possible`` includes ``sure``."""

    sure: frozenset[Link]
    possible: frozenset[Link]


class Score(NamedTuple):
    """Alignment quality over a corpus, each a share between 0 and 1."""

    aer: float
    precision: float  # on possible links
    recall: float  # on sure links

    @property
    def f1(self) -> float:
        """2 / (1 / precision + 1 / recall), 0 where either is.

        The balanced F-measure of precision on possible and recall on sure links (Fraser and Marcu, "Measuring Word
        Alignment Quality for Statistical Machine Translation", 2007, with alpha = 1/2). Where all gold links are sure
        it is 1 - AER.
        """
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def parse_alignment(line: str, first: int = 0) -> GoldAlignment:
    """Read one Pharaoh line: ``i-j`` a sure link, ``ipj`` one that is only possible, separated by blanks.

    The words are counted from ``first`` in the line, from 0 in what is returned.
    Raises ``ValueError``, with the offending item, if the line has anything else.
    """
    sure: Set[Link] = set()
    possible: Set[Link] = set()
    for item in line.split():
        match = _LINK.fullmatch(item)
        if match is None:
            raise ValueError(f"{item!r} is not a link; write i-j (sure) or ipj (possible), counted from {first}")
        link = (int(match[1]) - first, int(match[3]) - first)
        if min(link) < 0:
            raise ValueError(f"{item!r} counts from 0, all should count from {first}")
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


def read_gold(
    path: PathLike,
    form: str = "auto",
    one_based: bool = False,
    lengths: Optional[Lengths] = None,
    sentences: int = 0,
) -> List[GoldAlignment]:
    """Gold alignments of a corpus, sentence by sentence.

    Args:
        path: a file in one of two formats. ``pharaoh`` has a line ``0-0 1p2`` for each sentence pair. ``wpt``, that of
            the shared task of WPT 2003 (Mihalcea and Pedersen, "An Evaluation Exercise for Word Alignment"), has a line
            ``0001 3 4 S`` for each link: sentence, source word and target word, all counted from 1, and S (sure, also
            where the letter is missing) or P (possible); links to word 0, which stands for no word, are passed over
        form: one of ``GOLD_FORMATS``; ``auto`` sees which it is from the first line that is not empty
        one_based: words of a Pharaoh file are counted from 1
        lengths: words of source and target of every sentence of the corpus, None where they are not known
        sentences: of the corpus, where nothing is known of their lengths

    Returns:
        links counted from 0; from a file in WPT's format, as many sentences as ``lengths``, or at least ``sentences``:
        one without a link is not in the file

    Raises:
        OptionError: the file cannot be read, has a line that is no alignment or a link beyond its sentence (the line is
            named), or has other sentences than the corpus
    """
    try:
        lines = Path(path).read_text(encoding="utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot read alignments: {error}") from None
    if not lines[-1]:
        del lines[-1]
    if form == "auto":
        start = next((line.strip() for line in lines if line.strip()), "")
        form = "wpt" if _WPT.fullmatch(start) else "pharaoh"
    gold: List[GoldAlignment] = []
    found: List[Tuple[Set[Link], Set[Link]]] = [(set(), set()) for _ in lengths or range(sentences)]
    for number, line in enumerate(lines, 1):
        try:
            if form != "wpt":
                gold.append(parse_alignment(line, int(one_based)))
                if lengths is not None and number <= len(lengths):
                    check_links(gold[-1].possible, lengths[number - 1], int(one_based))
            elif line.strip():
                _add_wpt(line.strip(), found, lengths)
        except ValueError as error:
            raise OptionError(f"{path}, line {number}: {error}") from None
    if form == "wpt":
        return [GoldAlignment(frozenset(sure), frozenset(possible)) for sure, possible in found]
    if lengths is not None and len(gold) != len(lengths):
        raise OptionError(f"{path}: has {len(gold)} lines, the corpus has {len(lengths)} sentences")
    return gold


def _add_wpt(line: str, found: List[Tuple[Set[Link], Set[Link]]], lengths: Optional[Lengths]) -> None:
    """Adds the link of a line to the sure and possible links of its sentence; raises ``ValueError`` with the reason."""
    match = _WPT.fullmatch(line)
    if match is None:
        raise ValueError(f"{line!r} is no link of WPT's format; write: sentence, source word, target word, S or P")
    sentence, source, target = (int(match[group]) for group in (1, 2, 3))
    if sentence < 1 or (lengths is not None and sentence > len(lengths)):
        of = "" if lengths is None else f" to {len(lengths)}, the sentences of the corpus"
        raise ValueError(f"sentence {sentence}: is not one of 1{of}")
    found.extend((set(), set()) for _ in range(sentence - len(found)))
    if source and target:
        link = (source - 1, target - 1)
        check_links([link], lengths[sentence - 1] if lengths is not None else None, 1)
        sure, possible = found[sentence - 1]
        possible.add(link)
        if match[4] != "P":
            sure.add(link)


def check_links(links: Iterable[Link], length: Optional[Tuple[int, int]], first: int = 0) -> None:
    """Raises ``ValueError`` for a link to a word that a sentence of so many source and target words does not have.

    ``length`` is None where it is not known; ``first`` is where the message counts from.
    """
    if length is None:
        return
    for link in sorted(links):
        for side, index, words in zip(("source", "target"), link, length):
            if index >= words:
                raise ValueError(
                    f"link {link[0] + first}-{link[1] + first}: the {side} has {words} words, counted from {first}"
                    + ("" if first else "; if the file counts from 1, say so with --one-based")
                )


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
