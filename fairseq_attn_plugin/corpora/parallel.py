"""Sentence pairs: read and checked, tokenised, split without leaks, cut or dropped, and written."""

import functools
import hashlib
import re
import unicodedata
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.reading import moses_tokenizer

from .files import SEGMENT, find, read_lines, read_text, split_lines, write_lines

Pair = Tuple[str, str]
SPLITS = ("train", "valid", "test")
CHUNK = 2000  # sentences per task of a worker; large enough to hide the cost of the transfer


# --- words


@functools.lru_cache(maxsize=None)
def _moses(language: str) -> Tuple[Callable[[str], str], Callable[..., str]]:
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer(lang=language).normalize, moses_tokenizer(language)


def _tokens(line: str, language: str, normalize: bool, escape: bool) -> str:
    normalizer, tokenizer = _moses(language)
    return tokenizer(normalizer(line) if normalize else line, return_str=True, escape=escape)


def tokenize(lines: List[str], language: str, jobs: int, normalize: bool = True, escape: bool = True) -> List[str]:
    """``lines`` tokenised by Moses' rules, in their order, by ``jobs`` processes.

    ``normalize``: punctuation is normalised first; ``escape``: special characters are escaped (``&apos;``).
    """
    work = functools.partial(_tokens, language=language, normalize=normalize, escape=escape)
    return in_processes(work, lines, jobs, f"tokenise {language}")


def in_processes(work: Callable[[str], str], lines: Sequence[str], jobs: int, name: str) -> List[str]:
    """What a function makes of each line, in their order, by ``jobs`` processes; a terminal shows the progress."""
    with ProcessPoolExecutor(jobs) as pool:  # which starts processes only when it has work
        several = jobs > 1 and len(lines) > CHUNK
        done = pool.map(work, lines, chunksize=CHUNK) if several else map(work, lines)
        try:
            return list(tqdm(done, name, len(lines), unit=" sentences", disable=None))
        except BaseException:  # a second Ctrl-C while the pool waits for its processes leaves all of them hanging
            for process in list((pool._processes or {}).values()):
                process.kill()
            raise


def bare_words(line: str) -> str:
    """The words between white space without the punctuation at their ends. Their number does not change.

    A word that consists of punctuation stays as it is.
    """
    return " ".join(map(_bare, line.replace("\u2019", "'").split()))


def _bare(word: str) -> str:
    inner = [number for number, c in enumerate(word) if unicodedata.category(c)[0] != "P"]
    return word[inner[0] : inner[-1] + 1] if inner else word


class Treatment(NamedTuple):
    """What happens to the sentences of a split.

    Attributes:
        words: a function from the lines, their language and the number of processes to tokenised lines; None: the text
            is tokenised already
        lowercase: after tokenisation
        raw: also keep the original text of valid and test
    """

    words: Optional[Callable[[List[str], str, int], List[str]]] = None
    lowercase: bool = False
    raw: bool = False

    def apply(self, sides: Iterable[Sequence[str]], languages: Sequence[str], jobs: int) -> List[List[str]]:
        """Both sides of a split, treated."""
        done = []
        for language, lines in zip(languages, sides):
            lines = list(lines) if self.words is None else self.words(list(lines), language, jobs)
            done.append([line.lower() for line in lines] if self.lowercase else lines)
        return done


# --- both sides of a split


def read_sides(folder: Path, names: Sequence[str], expected: str = "") -> List[List[str]]:
    """Both sides of a split. Names are without ``.gz``, with alternatives ``a|b``; messages say what is ``expected``.

    Raises:
        OptionError: a file is missing or empty, or the two have different numbers of lines
    """
    paths = [find(folder, name) for name in names]
    for name, path in zip(names, paths):
        if path is None:
            wanted = ": expected " + expected if expected else ""
            first, also = name.split("|")[0], name.replace("|", " or ")
            raise OptionError(f"{first}.gz (or {also}) is missing in {folder}{wanted}")
    sides = [read_lines(path) for path in paths if path is not None]
    if len(sides[0]) != len(sides[1]):
        raise OptionError(
            f"{paths[0]} has {len(sides[0])} lines and {paths[1]} has {len(sides[1])}: the two must be parallel, "
            "one is truncated or of another version"
        )
    if not sides[0]:
        raise OptionError(f"{paths[0]} is empty")
    return sides


def write_sides(to: Path, languages: Sequence[str], sides: Iterable[Iterable[str]]) -> None:
    """Writes the sides of a split to ``TO.LANGUAGE``, one sentence per line."""
    for language, lines in zip(languages, sides):
        write_lines(Path(f"{to}.{language}"), lines)


def shorten(split: Path, languages: Sequence[str], cut: int, longest: int) -> None:
    """Cuts the sentences of both sides to ``cut`` tokens and drops pairs of more than ``longest``; 0: neither.

    Raises:
        OptionError: no pair is left
    """
    pairs = list(zip(*read_sides(split.parent, [f"{split.name}.{language}" for language in languages])))
    if cut:
        count = sum(len(side.split()) > cut for pair in pairs for side in pair)
        pairs = [tuple(" ".join(side.split()[:cut]) for side in pair) for pair in pairs]
        print(f"note: cut {count} of {2 * len(pairs)} sentences to {cut} tokens", flush=True)
    if longest:
        kept = [pair for pair in pairs if max(len(side.split()) for side in pair) <= longest]
        if not kept:
            raise OptionError(f"every pair of {split} has more than {longest} tokens on a side")
        print(f"note: dropped {len(pairs) - len(kept)} pairs of more than {longest} tokens", flush=True)
        pairs = kept
    write_sides(split, languages, zip(*pairs))


# --- splits of pairs without leaks
#
# Tatoeba has many translations of one sentence, in both directions. A split by line would put one translation of a
# sentence into train and another into test. Therefore pairs that share a sentence on either side, up to case,
# punctuation and white space, are joined into groups, over any number of steps. A whole group goes to one split: no
# sentence of any side occurs in two splits.
#
# The split of a group depends on the SHA-1 of its alphabetically first sentence alone. It does not depend on the order
# of the lines or on a random seed, and most groups keep their split in a later, longer version of the file. A group
# with more than 1 % of the pairs always goes to train, because it would dominate a test set.

SHARE = 5.0  # percent of valid, and of test


class _Kept(Dict[int, str]):
    """A table for ``str.translate``, filled as characters occur: letters, marks and digits stay, others are blanks."""

    def __missing__(self, number: int) -> str:
        self[number] = chr(number) if unicodedata.category(chr(number))[0] in "LMN" else " "
        return self[number]


_KEPT = _Kept()


def normalize(sentence: str) -> str:
    """Letters, marks and digits only, case folded. Sentences with equal results are the same for the split."""
    return " ".join(unicodedata.normalize("NFKC", sentence).casefold().translate(_KEPT).split())


def assign(pairs: Sequence[Pair], share: float = SHARE) -> Dict[str, List[Pair]]:
    """Pairs of every split, in their order; valid and test get about ``share`` percent each, at most 5."""
    # the prefixes keep the sides apart: a word with one spelling in both languages is not the same sentence
    keys = [("en " + normalize(a), "xx " + normalize(b)) for a, b in pairs]
    parent = {key: key for both in keys for key in both}

    def root(member: str) -> str:  # union-find with path halving; a root is the alphabetically first of its group
        while parent[member] != member:
            parent[member] = member = parent[parent[member]]
        return member

    for english, foreign in keys:
        first, second = sorted((root(english), root(foreign)))
        parent[second] = first
    roots = [root(english) for english, _ in keys]
    sizes = Counter(roots)
    splits: Dict[str, List[Pair]] = {split: [] for split in SPLITS}
    for pair, group in zip(pairs, roots):
        number = int(hashlib.sha1(group.encode("utf-8")).hexdigest(), 16)
        percent = number % 100 + number // 100 % 100 / 100
        split = "valid" if percent < share else "test" if SHARE <= percent < SHARE + share else "train"
        splits["train" if sizes[group] > max(1, len(pairs) // 100) else split].append(pair)
    return splits


def read_table(folder: Path, file: str) -> List[Pair]:
    """The different pairs of a file of ``English TAB foreign [TAB attribution]``, in their order.

    Raises:
        OptionError: the file is missing or damaged
    """
    path = find(folder, file)
    if path is None:
        raise OptionError(f"{file} (or {file}.gz) is missing in {folder}")
    pairs: Dict[Pair, None] = {}
    for number, line in enumerate(split_lines(read_text(path)), 1):
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) < 2 or not all(columns[:2]):
            raise OptionError(f"{path}, line {number}: expected English TAB foreign, got {columns!r}")
        pairs[(columns[0], columns[1])] = None
    if not pairs:
        raise OptionError(f"{path} is empty")
    return list(pairs)


def split_pairs(pairs: Sequence[Pair], equal_words: bool = False) -> Dict[str, List[Pair]]:
    """Splits pairs into train, valid and test, 90 / 5 / 5.

    With ``equal_words`` only pairs with equally many words between white space on both sides are kept. They are
    selected after the split, so that a pair is in the same split with and without this option.

    Raises:
        OptionError: a split is empty
    """
    splits = assign(pairs)
    if equal_words:
        for split, part in splits.items():
            splits[split] = [pair for pair in part if len(pair[0].split()) == len(pair[1].split())]
    kept = sum(map(len, splits.values()))
    if equal_words:
        print(f"note: {kept} of {len(pairs)} pairs have equally many words on both sides", flush=True)
    for split, part in splits.items():
        if not part:
            raise OptionError(f"{kept} pairs are too few, the {split} split is empty")
    print("note: " + ", ".join(f"{split} {len(part)}" for split, part in splits.items()), flush=True)
    return splits


# --- IWSLT'14 German-English: the archive of WIT3, in the split of most papers: 160,239 / 7,283 / 6,750 pairs
#
# Lines with the address, the key words or the number of a talk are left out of the training text; titles and
# descriptions are sentences of it. The test set is the concatenation of the five development and test sets of 2010 to
# 2012. Their typographic apostrophes become plain ones, as in the training text. Nothing else changes, so that scores
# are comparable. The tokenised training text is cleaned as by Moses' clean-corpus-n: 1 to 175 tokens on each side, and
# no side more than 1.5 times as long as the other. Every 23rd of the remaining pairs goes to validation.

LONGEST, RATIO, EVERY = 175, 1.5, 23


def _talk_lines(path: Path) -> List[str]:
    text = read_text(path)
    if path.name.startswith("train"):
        lines = [line for line in split_lines(text) if not re.search("<(url|talkid|keywords)>", line)]
        return [" ".join(re.sub("</?(title|description)>", "", line).split()) for line in lines]
    if not re.search("</(srcset|refset|mteval)>", text):
        raise OptionError(f"{path} is truncated: its XML has no end tag; fetch it again")
    return [" ".join(segment.split()).replace("\u2019", "'") for segment in SEGMENT.findall(text)]


def read_talks(folder: Path, names: Sequence[str]) -> Dict[str, List[List[str]]]:
    """The German and English sentences of ``train`` and ``test``, in the files ``names`` of the archive, of which each
    German one is followed by its English one.

    Raises:
        OptionError: files are missing, truncated or not parallel
    """
    missing = [name for name in names if find(folder, name) is None]
    if missing:
        raise OptionError(f"{', '.join(missing)}: missing in {folder}: expected the whole archive de-en.tgz")
    splits: Dict[str, List[List[str]]] = {"train": [[], []], "test": [[], []]}
    lines = [_talk_lines(find(folder, name) or folder) for name in names]
    for name, german, english in zip(names[::2], lines[::2], lines[1::2]):
        if len(german) != len(english):
            raise OptionError(
                f"{folder / name} has {len(german)} sentences, and {len(english)} in English: the two must be "
                "parallel, fetch them again"
            )
        for whole, part in zip(splits["train" if name.startswith("train") else "test"], (german, english)):
            whole += part
    return splits


def clean_split(sides: Sequence[Sequence[str]]) -> Dict[str, List[Pair]]:
    """Cleans the tokenised pairs and splits them into train and valid; ``OptionError`` if too few are left."""
    kept: List[Pair] = []
    for german, english in zip(*sides):
        shorter, longer = sorted((len(german.split()), len(english.split())))
        if shorter >= 1 and longer <= LONGEST and longer <= RATIO * shorter:
            kept.append((german, english))
    if len(kept) < EVERY:
        raise OptionError(f"{len(kept)} of {len(sides[0])} training pairs are left after cleaning: too few to split")
    print(f"note: cleaning left {len(kept)} of {len(sides[0])} training pairs", flush=True)
    return {
        "train": [pair for number, pair in enumerate(kept, 1) if number % EVERY],
        "valid": kept[EVERY - 1 :: EVERY],
    }
