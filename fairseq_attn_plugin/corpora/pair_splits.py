"""Splits a file of sentence pairs (``English TAB foreign [TAB attribution]``) 90 / 5 / 5, without leaks.

Tatoeba has many translations of one sentence, in both directions. A split by line would put one translation of a
sentence into train and another into test. Therefore pairs that share a sentence on either side, up to case,
punctuation and white space, are joined into groups, over any number of steps. A whole group goes to one split: no
sentence of any side occurs in two splits.

The split of a group depends on the SHA-1 of its alphabetically first sentence alone. It does not depend on the order of
the lines or on a random seed, and most groups keep their split in a later, longer version of the file. A group with
more than 1 % of the pairs always goes to train, because it would dominate a test set.

``equal_words`` keeps the pairs whose sides have the same number of words between white space. They are selected after
the split, so that a pair is in the same split with and without this option.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

from .errors import CorpusError
from .files import check_folder, find, note_fewer, read_text, split_lines, write_lines

__all__ = ["assign", "split_pairs"]

Pair = Tuple[str, str]
VALID = 5  # percent: below 5 valid, below 10 test, the rest train


def normalize(sentence: str) -> str:
    """Letters, marks and digits only, case folded. Sentences with equal results are the same for the split."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text)
    return " ".join(kept.split())


def read_pairs(path: Path) -> List[Pair]:
    """Distinct pairs of the file in its order.

    Raises:
        CorpusError: a line has fewer than two columns, or the file is empty
    """
    pairs: Dict[Pair, None] = {}
    for number, line in enumerate(split_lines(read_text(path)), 1):
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) < 2 or not all(columns[:2]):
            raise CorpusError(f"{path}, line {number}: expected English TAB foreign, got {columns!r}")
        pairs[(columns[0], columns[1])] = None
    if not pairs:
        raise CorpusError(f"{path} is empty")
    return list(pairs)


class Groups:
    """Union-find with path halving; the root of a group is its alphabetically first member."""

    def __init__(self) -> None:
        self.parent: Dict[str, str] = {}

    def find(self, member: str) -> str:
        parent = self.parent
        parent.setdefault(member, member)
        while parent[member] != member:
            parent[member] = parent[parent[member]]
            member = parent[member]
        return member

    def join(self, a: str, b: str) -> None:
        first, second = sorted((self.find(a), self.find(b)))
        self.parent[second] = first


def split_of(root: str, share: float = VALID) -> str:
    number = int(hashlib.sha1(root.encode("utf-8")).hexdigest(), 16)
    percent = number % 100 + number // 100 % 100 / 100
    return "valid" if percent < share else "test" if VALID <= percent < VALID + share else "train"


def assign(pairs: Sequence[Pair], share: float = VALID) -> Dict[str, List[Pair]]:
    """Pairs of every split, in the order of the file; valid and test get about ``share`` percent each, at most 5."""
    groups = Groups()
    # the prefixes keep the sides apart: a word with one spelling in both languages is not the same sentence
    keys = [("en " + normalize(a), "xx " + normalize(b)) for a, b in pairs]
    for english, foreign in keys:
        groups.join(english, foreign)
    roots = [groups.find(english) for english, _ in keys]
    sizes = Counter(roots)
    splits: Dict[str, List[Pair]] = defaultdict(list)
    for pair, root in zip(pairs, roots):
        big = sizes[root] > max(1, len(pairs) // 100)
        splits["train" if big else split_of(root, share)].append(pair)
    return splits


def has_equal_words(pair: Pair) -> bool:
    return len(pair[0].split()) == len(pair[1].split())


def split_pairs(
    folder: Path,
    file: str,
    languages: Sequence[str],
    to: Path,
    *,
    at_least: int = 1,
    strict: bool = False,
    equal_words: bool = False,
) -> None:
    """Writes ``TO/{train,valid,test}.LANGUAGE``.

    Args:
        folder: of the file
        file: its name without ``.gz``
        languages: suffixes of English and of the other language
        to: folder for the splits
        at_least: number of pairs in the published file
        strict: whether fewer pairs are an error; otherwise they are a note
        equal_words: whether only pairs with equally many words on both sides are kept

    Raises:
        CorpusError: the file is missing or damaged, or a split is empty
    """
    check_folder(folder)
    path = find(folder, file)
    if path is None:
        raise CorpusError(f"{file} (or {file}.gz) is missing in {folder}")
    pairs = read_pairs(path)
    if len(pairs) < at_least:
        report = f"{path} holds {len(pairs)} pairs, the published file at least {at_least}"
        note_fewer(report, strict)
    splits = assign(pairs)
    kept = len(pairs)
    if equal_words:
        splits = {split: list(filter(has_equal_words, part)) for split, part in splits.items()}
        kept = sum(map(len, splits.values()))
        print(f"note: {kept} of {len(pairs)} pairs have equally many words on both sides", flush=True)
    for split in ("train", "valid", "test"):
        if not splits.get(split):
            raise CorpusError(f"{path}: {kept} pairs are too few, the {split} split is empty")
        for side, language in enumerate(languages):
            write_lines(to / f"{split}.{language}", (pair[side] for pair in splits[split]))
    print("note: " + ", ".join(f"{split} {len(part)}" for split, part in splits.items()), flush=True)
