"""Maps subwords of subword-nmt and SentencePiece to the words that they spell."""

import itertools
from typing import Any, Iterable, List, Sequence, Tuple

BPE_MARK = "@@"  # subword-nmt: ends each subword of a word except the last one
PIECE_MARK = "\u2581"  # SentencePiece: starts the first subword of a word
SUBWORDS = ("bpe", "sentencepiece", "none")


def words_of(tokens: Sequence[str], subwords: str = "bpe") -> List[int]:
    """The word index of each subword: ``['a@@', 'b', 'c']`` gives ``[0, 0, 1]``.

    ``subwords`` is ``bpe`` (every subword of a word except the last one ends in ``@@``), ``sentencepiece`` (the first
    subword of a word starts with U+2581) or ``none`` (each token is a word).
    """
    if subwords == "sentencepiece":
        begins = [token.startswith(PIECE_MARK) for token in tokens[1:]]
    else:
        begins = [subwords == "none" or not token.endswith(BPE_MARK) for token in tokens[:-1]]
    return list(itertools.accumulate(begins, initial=0)) if tokens else []


def subwords_of(lines: Iterable[str]) -> Tuple[str, str]:
    """How words are split, ``bpe``, ``sentencepiece`` or ``none``, and the first token that shows it."""
    for line in lines:
        if BPE_MARK in line or PIECE_MARK in line:
            for token in line.split():
                if token.startswith(PIECE_MARK):
                    return "sentencepiece", token
                if token.endswith(BPE_MARK) and token != BPE_MARK:
                    return "bpe", token
    return "none", ""


def vocabulary_subwords(dictionary: Any) -> str:
    """How the words of a fairseq dictionary were split, one of ``SUBWORDS``, judged by its marks."""
    return subwords_of(dictionary.symbols[dictionary.nspecial :])[0]


def pair_subwords(task: Any) -> str:
    """How the words of both sides of a task were split: as those of its target, or ``bpe`` if only its source has marks
    of BPE, since ``bpe`` reads tokens without marks as words."""
    found = [vocabulary_subwords(side) for side in (task.source_dictionary, task.target_dictionary)]
    return "bpe" if found == ["bpe", "none"] else found[1]


def word_count(words: Sequence[int]) -> int:
    """The number of words, given the word index of each subword."""
    return words[-1] + 1 if words else 0


def spell(tokens: Sequence[str], subwords: str = "bpe") -> List[str]:
    """The words that subwords spell: ``['a@@', 'b', 'c']`` gives ``['ab', 'c']``."""
    words = [""] * word_count(words_of(tokens, subwords))
    for token, word in zip(tokens, words_of(tokens, subwords)):
        if subwords == "bpe":
            token = token.removesuffix(BPE_MARK)
        words[word] += token.replace(PIECE_MARK, "") if subwords == "sentencepiece" else token
    return words
