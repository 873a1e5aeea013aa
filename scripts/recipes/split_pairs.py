#!/usr/bin/env python3
"""Splits a file of sentence pairs (``English TAB foreign [TAB attribution]``) 90 / 5 / 5, without leaks.

Tatoeba gives many translations of one sentence, in both directions. A split by line would put one
translation of a sentence into train and another into test. So pairs that share a sentence, on either side
and up to case, punctuation and white space, are joined into groups, over any number of steps, and a whole
group goes to one split: no sentence of any side occurs in two splits.

The split of a group follows from the SHA-1 of its alphabetically first sentence, and from nothing else:
neither the order of the lines nor a random seed matters, and most groups keep their split in a later,
longer version of the file. A group larger than 1 % of the pairs always goes to train, for it would decide
the size of a test set.

``--equal-words`` keeps, of every split, the pairs whose sides have equally many words, a word being what white space
separates. They are chosen after the split, so that a pair is in the same split with and without it.
"""

import argparse
import hashlib
import sys
import unicodedata
from collections import Counter, defaultdict
from pathlib import Path
from typing import Dict, List, Tuple

from parallel_text import CorpusError, find, read_text, split_lines, status_of, write_lines

VALID, TEST = 5, 10  # percent: below 5 valid, below 10 test, the rest train


def normalize(sentence: str) -> str:
    """Letters, marks and digits only, case folded: what makes two sentences the same for the split."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    kept = "".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text)
    return " ".join(kept.split())


def read_pairs(path: Path) -> List[Tuple[str, str]]:
    """Distinct pairs of the file in its order."""
    pairs = {}
    for number, line in enumerate(split_lines(read_text(path)), 1):
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) < 2 or not all(columns[:2]):
            raise CorpusError("%s, line %d: expected English TAB foreign, got %r" % (path, number, columns))
        pairs[(columns[0], columns[1])] = None
    if not pairs:
        raise CorpusError("%s is empty" % path)
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


def split_of(root: str) -> str:
    percent = int(hashlib.sha1(root.encode("utf-8")).hexdigest(), 16) % 100
    return "valid" if percent < VALID else "test" if percent < TEST else "train"


def assign(pairs: List[Tuple[str, str]]) -> Dict[str, List[Tuple[str, str]]]:
    """Pairs of every split, in the order of the file."""
    groups = Groups()
    # the sides are told apart: a word spelt alike in both languages is not the same sentence
    keys = [("en " + normalize(a), "xx " + normalize(b)) for a, b in pairs]
    for english, foreign in keys:
        groups.join(english, foreign)
    roots = [groups.find(english) for english, _ in keys]
    sizes = Counter(roots)
    splits: Dict[str, List[Tuple[str, str]]] = defaultdict(list)
    for pair, root in zip(pairs, roots):
        big = sizes[root] > max(1, len(pairs) // 100)
        splits["train" if big else split_of(root)].append(pair)
    return splits


def equal_words(pair: Tuple[str, str]) -> bool:
    return len(pair[0].split()) == len(pair[1].split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True, help="where the file lies")
    parser.add_argument("--file", required=True, help="its name, without .gz")
    parser.add_argument("--languages", nargs=2, required=True, help="suffixes: of English, of the other")
    parser.add_argument("--to", required=True, help="folder for train, valid and test")
    parser.add_argument("--at-least", type=int, default=1, help="pairs that the published file has at least")
    parser.add_argument("--strict", action="store_true", help="fewer pairs are an error")
    parser.add_argument("--equal-words", action="store_true", help="keep pairs whose sides have equally many words")
    args = parser.parse_args()
    folder = Path(args.folder)
    if not folder.is_dir():
        raise CorpusError("DATA=%s is no folder" % folder)
    path = find(folder, args.file)
    if path is None:
        raise CorpusError("%s (or %s.gz) is missing in %s" % (args.file, args.file, folder))
    pairs = read_pairs(path)
    if len(pairs) < args.at_least:
        report = "%s holds %d pairs, the published file at least %d" % (path, len(pairs), args.at_least)
        if args.strict:
            raise CorpusError(report + ": the download is truncated, remove it and fetch it again")
        print("note: " + report, file=sys.stderr)
    splits = assign(pairs)
    kept = len(pairs)
    if args.equal_words:
        splits = {split: list(filter(equal_words, part)) for split, part in splits.items()}
        kept = sum(map(len, splits.values()))
        print("note: %d of %d pairs have equally many words on both sides" % (kept, len(pairs)))
    for split in ("train", "valid", "test"):
        if not splits.get(split):
            raise CorpusError("%s: %d pairs are too few, the %s split is empty" % (path, kept, split))
        for side, language in enumerate(args.languages):
            target = Path(args.to) / ("%s.%s" % (split, language))
            write_lines(target, (pair[side] for pair in splits[split]))
    print("note: " + ", ".join("%s %d" % (split, len(part)) for split, part in splits.items()))


if __name__ == "__main__":
    sys.exit(status_of(main))
