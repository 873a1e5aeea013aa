"""Sentence pairs: a split is read, checked, tokenised and written; pairs are split; long ones are cut or dropped."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from .files import SEGMENT, CorpusError, find, read_lines, read_text, split_lines, write_lines

__all__ = [
    "AS_IT_IS", "SHARE", "Treatment", "assign", "bare_words", "clean_split", "cut_split", "detokenize", "drop_split",
    "extract_talks", "import_split", "normalize", "split_pairs", "talk_files", "tokenize",
]  # fmt: skip

Pair = Tuple[str, str]
CHUNK = 2000  # sentences per task of a worker; large enough to hide the cost of the transfer


# --- words


class _Tokenizer:
    """Moses tokenisation of one language, which a worker can receive."""

    def __init__(self, language: str, normalize: bool, escape: bool):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        self.normalizer = MosesPunctNormalizer(lang=language) if normalize else None
        self.tokenizer, self.escape = MosesTokenizer(lang=language), escape

    def __call__(self, lines: Iterable[str]) -> List[str]:
        if self.normalizer is not None:
            lines = map(self.normalizer.normalize, lines)
        return [self.tokenizer.tokenize(line, return_str=True, escape=self.escape) for line in lines]


def tokenize(lines: List[str], language: str, jobs: int, normalize: bool = True, escape: bool = True) -> List[str]:
    """``lines`` tokenised by Moses' rules, in their order, by ``jobs`` processes.

    ``normalize``: punctuation is normalised first; ``escape``: special characters are escaped (``&apos;``).
    """
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    work = _Tokenizer(language, normalize, escape)
    done: List[str] = []
    bar = tqdm(total=len(lines), desc="tokenise " + language, unit=" sentences", disable=None)
    with bar, ProcessPoolExecutor(jobs) as pool:  # which starts processes only when it has work
        for part in pool.map(work, chunks) if jobs > 1 and len(chunks) > 1 else map(work, chunks):
            done += part
            bar.update(len(part))
    return done


def detokenize(lines: List[str], language: str) -> List[str]:
    """Undoes Moses tokenisation (approximately) and its escapes."""
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang=language)
    return [detokenizer.detokenize(line.split(), unescape=True) for line in lines]


def bare_words(line: str) -> str:
    """The words between white space without the punctuation at their ends. Their number does not change.

    A word that consists of punctuation stays as it is.
    """
    return " ".join(map(_bare, line.replace("\u2019", "'").split()))


def _bare(word: str) -> str:
    inner = [number for number, c in enumerate(word) if unicodedata.category(c)[0] != "P"]
    return word[inner[0] : inner[-1] + 1] if inner else word


# --- a split of a published corpus


class Treatment(NamedTuple):
    """What happens to the sentences of a split.

    Attributes:
        words: a function from the lines, their language and the number of processes to tokenised lines; None: the text
            is tokenised already
        lowercase: after tokenisation
        drop_empty: drop pairs with an empty side
        raw: also write the original text to ``SPLIT.raw.LANGUAGE``
    """

    words: Optional[Callable[[List[str], str, int], List[str]]] = None
    lowercase: bool = False
    drop_empty: bool = False
    raw: bool = False


AS_IT_IS = Treatment()


def read_pair(folder: Path, names: Sequence[str], expected: str = "") -> List[List[str]]:
    """Both sides of a split. Names are without ``.gz``, with alternatives ``a|b``; messages say what is ``expected``.

    Raises:
        CorpusError: a file is missing or empty, or the two have different numbers of lines
    """
    found = []
    for name in names:
        path = find(folder, name)
        if path is None:
            wanted = ": expected " + expected if expected else ""
            first, also = name.split("|")[0], name.replace("|", " or ")
            raise CorpusError(f"{first}.gz (or {also}) is missing in {folder}{wanted}")
        found.append(path)
    sides = [read_lines(path) for path in found]
    if len(sides[0]) != len(sides[1]):
        raise CorpusError(
            f"{found[0]} has {len(sides[0])} lines and {found[1]} has {len(sides[1])}: the two must be parallel, "
            "one is truncated or of another version"
        )
    if not sides[0]:
        raise CorpusError(f"{found[0]} is empty")
    return sides


def import_split(
    folder: Path,
    files: Sequence[str],
    languages: Sequence[str],
    to: Path,
    treatment: Treatment = AS_IT_IS,
    expected: str = "",
    jobs: int = 1,
) -> None:
    """Reads both sides of a split and writes them to ``TO.LANGUAGE``, one sentence per line.

    Tokenised versions of the files, as ``train.tok.de`` of ``train.de``, are read instead if both exist.

    Args:
        folder: of the published files
        files: their names without ``.gz``; alternatives are ``a|b``
        languages: of the two files
        to: prefix of the written files
        treatment: of the sentences
        expected: what the folder must contain, for the message about a missing file
        jobs: number of processes for tokenisation

    Raises:
        CorpusError: the files are missing, damaged or not parallel
    """
    words = treatment.words
    tokenized = [re.sub(r"\.(\w+)$", r".tok.\1", name) for name in files]
    has_tokens = words is not None and all(find(folder, name) for name in tokenized)
    sides = read_pair(folder, tokenized if has_tokens else files, expected)
    count = len(sides[0])
    # the untouched references are for detokenised scores; a folder with tokenised files alone has none
    if treatment.raw and all(find(folder, name) for name in files):
        raw = read_pair(folder, files)
        if len(raw[0]) != count:
            raise CorpusError(f"{files[0]} and {tokenized[0]} differ in length")
        _write_sides(Path(f"{to}.raw"), languages, raw)
    if treatment.drop_empty:
        kept = [pair for pair in zip(*sides) if all(pair)]
        if not kept:
            raise CorpusError(f"{files[0]} has no pair with words on both sides")
        if len(kept) < count:
            print(f"note: dropped {count - len(kept)} pairs with an empty side", file=sys.stderr, flush=True)
        sides = [list(side) for side in zip(*kept)]
    for language, lines in zip(languages, sides):
        if words is not None and not has_tokens:
            lines = words(lines, language, jobs)
        write_lines(Path(f"{to}.{language}"), (line.lower() for line in lines) if treatment.lowercase else lines)


def cut_split(split: Path, languages: Sequence[str], length: int) -> None:
    """Cuts the sentences of both sides to ``length`` tokens."""
    for language in languages:
        path = Path(f"{split}.{language}")
        lines = read_lines(path)
        longer = sum(len(line.split()) > length for line in lines)
        write_lines(path, (" ".join(line.split()[:length]) for line in lines))
        print(f"note: cut {longer} of {len(lines)} lines of {path.name} to {length} tokens", flush=True)


def drop_split(split: Path, languages: Sequence[str], length: int) -> None:
    """Drops the pairs with more than ``length`` tokens on a side; raises ``CorpusError`` if no pair is left."""
    sides = read_pair(split.parent, [f"{split.name}.{language}" for language in languages])
    kept = [pair for pair in zip(*sides) if max(len(side.split()) for side in pair) <= length]
    if not kept:
        raise CorpusError(f"every pair of {split} has more than {length} tokens on a side")
    _write_sides(split, languages, zip(*kept))
    print(f"note: dropped {len(sides[0]) - len(kept)} pairs of more than {length} tokens", flush=True)


def _write_sides(to: Path, languages: Sequence[str], sides: Iterable[Iterable[str]]) -> None:
    for language, lines in zip(languages, sides):
        write_lines(Path(f"{to}.{language}"), lines)


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


def normalize(sentence: str) -> str:
    """Letters, marks and digits only, case folded. Sentences with equal results are the same for the split."""
    text = unicodedata.normalize("NFKC", sentence).casefold()
    return " ".join("".join(c if unicodedata.category(c)[0] in "LMN" else " " for c in text).split())


class _Groups:
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


def assign(pairs: Sequence[Pair], share: float = SHARE) -> Dict[str, List[Pair]]:
    """Pairs of every split, in the order of the file; valid and test get about ``share`` percent each, at most 5."""
    groups = _Groups()
    # the prefixes keep the sides apart: a word with one spelling in both languages is not the same sentence
    keys = [("en " + normalize(a), "xx " + normalize(b)) for a, b in pairs]
    for english, foreign in keys:
        groups.join(english, foreign)
    roots = [groups.find(english) for english, _ in keys]
    sizes = Counter(roots)
    splits: Dict[str, List[Pair]] = defaultdict(list)
    for pair, root in zip(pairs, roots):
        number = int(hashlib.sha1(root.encode("utf-8")).hexdigest(), 16)
        percent = number % 100 + number // 100 % 100 / 100
        split = "valid" if percent < share else "test" if SHARE <= percent < SHARE + share else "train"
        splits["train" if sizes[root] > max(1, len(pairs) // 100) else split].append(pair)
    return splits


def split_pairs(folder: Path, file: str, languages: Sequence[str], to: Path, equal_words: bool = False) -> None:
    """Splits a file of ``English TAB foreign [TAB attribution]`` into ``TO/{train,valid,test}.LANGUAGE``, 90 / 5 / 5.

    With ``equal_words`` only pairs with equally many words between white space on both sides are kept. They are
    selected after the split, so that a pair is in the same split with and without this option.

    Raises:
        CorpusError: the file is missing or damaged, or a split is empty
    """
    path = find(folder, file)
    if path is None:
        raise CorpusError(f"{file} (or {file}.gz) is missing in {folder}")
    pairs: Dict[Pair, None] = {}  # in their order
    for number, line in enumerate(split_lines(read_text(path)), 1):
        columns = [" ".join(column.split()) for column in line.split("\t")]
        if len(columns) < 2 or not all(columns[:2]):
            raise CorpusError(f"{path}, line {number}: expected English TAB foreign, got {columns!r}")
        pairs[(columns[0], columns[1])] = None
    if not pairs:
        raise CorpusError(f"{path} is empty")
    splits = assign(list(pairs))
    kept = len(pairs)
    if equal_words:
        for split, part in splits.items():
            splits[split] = [pair for pair in part if len(pair[0].split()) == len(pair[1].split())]
        kept = sum(map(len, splits.values()))
        print(f"note: {kept} of {len(pairs)} pairs have equally many words on both sides", flush=True)
    for split in ("train", "valid", "test"):
        if not splits.get(split):
            raise CorpusError(f"{path}: {kept} pairs are too few, the {split} split is empty")
        _write_sides(to / split, languages, zip(*splits[split]))
    print("note: " + ", ".join(f"{split} {len(part)}" for split, part in splits.items()), flush=True)


# --- IWSLT'14 German-English: the archive of WIT3, in the split of most papers: 160,239 / 7,283 / 6,750 pairs
#
# Lines with the address, the key words or the number of a talk are left out of the training text; titles and
# descriptions are sentences of it. The test set is the concatenation of the five development and test sets of 2010 to
# 2012. Their typographic apostrophes become plain ones, as in the training text. Nothing else changes, so that scores
# are comparable. The tokenised training text is cleaned as by Moses' clean-corpus-n: 1 to 175 tokens on each side, and
# no side more than 1.5 times as long as the other. Every 23rd of the remaining pairs goes to validation.

GERMAN_ENGLISH = ("de", "en")
TRAIN_TALKS = "train.tags.de-en.%s"
TEST_TALKS = [
    f"IWSLT14.{name}.de-en.%s.xml"
    for name in ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
]
LONGEST, RATIO, EVERY = 175, 1.5, 23


def talk_files() -> List[str]:
    """Names of the files of the archive ``de-en.tgz`` that :func:`extract_talks` reads."""
    return [name % language for language in GERMAN_ENGLISH for name in (TRAIN_TALKS, *TEST_TALKS)]


def _talk_lines(path: Path) -> List[str]:
    text = read_text(path)
    if path.name.startswith("train"):
        lines = [line for line in split_lines(text) if not re.search("<(url|talkid|keywords)>", line)]
        return [re.sub("</?(title|description)>", "", line) for line in lines]
    if not re.search("</(srcset|refset|mteval)>", text):
        raise CorpusError(f"{path} is truncated: its XML has no end tag; fetch it again")
    return [" ".join(segment.split()).replace("\u2019", "'") for segment in SEGMENT.findall(text)]


def extract_talks(folder: Path, to: Path) -> None:
    """Writes ``TO/all.{de,en}``, the training text, and ``TO/test.{de,en}``.

    Raises:
        CorpusError: files are missing, truncated or not parallel
    """
    paths = {name: find(folder, name) for name in talk_files()}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        raise CorpusError(f"{', '.join(missing)}: missing in {folder}: expected the whole archive de-en.tgz")
    for split, names in (("all", [TRAIN_TALKS]), ("test", TEST_TALKS)):
        whole: List[List[str]] = [[], []]
        for name in names:
            german, english = (_talk_lines(paths[name % language] or folder) for language in GERMAN_ENGLISH)
            if len(german) != len(english):
                raise CorpusError(
                    f"{folder / name.replace('%s', '{de,en}')} has {len(german)} sentences in German and "
                    f"{len(english)} in English: the two must be parallel, fetch them again"
                )
            whole = [whole[0] + german, whole[1] + english]
        _write_sides(to / split, GERMAN_ENGLISH, whole)


def clean_split(folder: Path) -> None:
    """Replaces ``FOLDER/all.{de,en}`` by ``train`` and ``valid``; raises ``CorpusError`` if too few pairs are left."""
    sides = read_pair(folder, [f"all.{language}" for language in GERMAN_ENGLISH])
    kept = []
    for pair in zip(*sides):
        shorter, longer = sorted(len(side.split()) for side in pair)
        if shorter >= 1 and longer <= LONGEST and longer <= RATIO * shorter:
            kept.append(pair)
    if len(kept) < EVERY:
        raise CorpusError(f"{len(kept)} of {len(sides[0])} training pairs are left after cleaning: too few to split")
    _write_sides(folder / "valid", GERMAN_ENGLISH, zip(*kept[EVERY - 1 :: EVERY]))
    train = (pair for number, pair in enumerate(kept, 1) if number % EVERY)
    _write_sides(folder / "train", GERMAN_ENGLISH, zip(*train))
    for language in GERMAN_ENGLISH:
        (folder / f"all.{language}").unlink()
    print(f"note: cleaning left {len(kept)} of {len(sides[0])} training pairs", flush=True)
