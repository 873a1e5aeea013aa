"""Pairs the sentences of two files of records, and checks that both have the same words."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple, TypeVar

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import BPE_MARK

UNKNOWN = "<unk>"  # one of two models may not know a word that the other knows
_One = TypeVar("_One")
_Other = TypeVar("_Other")


def meet(one: Iterable[Tuple[int, _One]], other: Iterable[Tuple[int, _Other]]) -> Iterator[Tuple[int, _One, _Other]]:
    """Yields (number, item, other item) for each number that both streams have.

    Both streams are read at the same pace. If their orders agree, only one item of each is in memory.
    """
    waiting: Tuple[Dict[int, Any], Dict[int, Any]] = ({}, {})
    streams: Tuple[Iterator[Any], Iterator[Any]] = (iter(one), iter(other))
    open_ends = [0, 1]
    while open_ends:
        for side in tuple(open_ends):
            try:
                number, item = next(streams[side])
            except StopIteration:
                open_ends.remove(side)
                continue
            if number in waiting[1 - side]:
                partner = waiting[1 - side].pop(number)
                yield (number, partner, item) if side else (number, item, partner)
            else:
                waiting[side][number] = item


def check_same(number: int, side: str, one: Tuple[str, Sequence[str]], other: Tuple[str, Sequence[str]]) -> None:
    """Raises ``OptionError`` unless two files have the same words in a sentence. ``<unk>`` matches any word.

    Args:
        number: of the sentence
        side: ``source`` or ``target``, for the message
        one: name of the first file, and its words
        other: name of the second file, and its words
    """
    pairs = list(zip(one[1], other[1]))
    differ = [pair for pair in pairs if pair[0] != pair[1] and not any(UNKNOWN in word for word in pair)]
    if not differ and len(one[1]) == len(other[1]):
        return
    where = f"sentence {number}: {one[0]} and {other[0]} have different {side} words"
    what = f"{differ[0][0]!r} and {differ[0][1]!r}" if differ else f"{len(one[1])} and {len(other[1])} words"
    marked: List[str] = [name for name, words in (one, other) if any(BPE_MARK in word for word in words)]
    why = f"; {marked[0]} has {BPE_MARK} in its words, the other does not" if len(marked) == 1 else ""
    raise OptionError(f"{where} ({what}){why}; they must be of the same corpus, in the same tokenisation")
