"""The IWSLT'14 archive of WIT3, German-English, in the split of most papers: 160,239 / 7,283 / 6,750 pairs.

:func:`extract` takes the sentences out of the files of the archive. Lines with the address, the key words or the
number of a talk are left out of the training text; titles and descriptions are sentences of it. The test set is the
concatenation of the five development and test sets of 2010 to 2012. Their typographic apostrophes become plain ones,
as in the training text. Nothing else changes, so that scores are comparable.

:func:`split` cleans the tokenised training text, as Moses' clean-corpus-n does: 1 to 175 tokens on each side, and no
side more than 1.5 times as long as the other. Every 23rd of the remaining pairs goes to validation.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Iterable, List, Sequence

from .errors import CorpusError
from .files import SEGMENT, find, read_pair, read_text, split_lines, write_lines

__all__ = ["TEST_SETS", "extract", "holds_archive", "members", "split"]

LANGUAGES = ("de", "en")
TEST_SETS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
TRAIN_FILE = "train.tags.de-en.%s"
METADATA = re.compile(r"<(url|talkid|keywords)>")
TITLE = re.compile(r"</?(title|description)>")
END = re.compile(r"</(srcset|refset|mteval)>")
LONGEST, RATIO, EVERY = 175, 1.5, 23


def _test_files() -> List[str]:
    return [f"IWSLT14.{name}.de-en.%s.xml" for name in TEST_SETS]


def members() -> List[str]:
    """Names of the files of the archive ``de-en.tgz`` that :func:`extract` reads."""
    return ["de-en/" + name % language for language in LANGUAGES for name in (TRAIN_FILE, *_test_files())]


def holds_archive(folder: Path) -> bool:
    """Whether the archive was unpacked in this folder."""
    return any(True for pattern in ("train.tags.*", "IWSLT14.TED*") for _ in folder.glob(pattern))


def training_lines(path: Path) -> List[str]:
    return [TITLE.sub("", line) for line in split_lines(read_text(path)) if not METADATA.search(line)]


def test_lines(path: Path) -> List[str]:
    text = read_text(path)
    if not END.search(text):
        raise CorpusError(f"{path} is truncated: its XML has no end tag; fetch it again")
    return [" ".join(segment.split()).replace("\u2019", "'") for segment in SEGMENT.findall(text)]


def extract(folder: Path, to: Path) -> None:
    """Writes ``TO/all.{de,en}``, the training text, and ``TO/test.{de,en}``.

    Raises:
        CorpusError: files are missing, truncated or not parallel
    """
    names = [TRAIN_FILE, *_test_files()]
    paths = {name % language: find(folder, name % language) for name in names for language in LANGUAGES}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        raise CorpusError(f"{', '.join(missing)}: missing in {folder}: expected the whole archive de-en.tgz")
    whole: List[List[str]] = [[], []]
    for name in names:
        read = training_lines if name == TRAIN_FILE else test_lines
        sides = [read(path) for path in (paths[name % language] for language in LANGUAGES) if path is not None]
        if len(sides[0]) != len(sides[1]):
            raise CorpusError(
                f"{folder / name.replace('%s', '{de,en}')} has {len(sides[0])} sentences in German and "
                f"{len(sides[1])} in English: the two must be parallel, fetch them again"
            )
        if name == TRAIN_FILE:
            _write_sides(to, "all", sides)
        else:
            whole = [before + lines for before, lines in zip(whole, sides)]
    _write_sides(to, "test", whole)


def _write_sides(folder: Path, name: str, sides: Iterable[Sequence[str]]) -> None:
    for language, lines in zip(LANGUAGES, sides):
        write_lines(folder / f"{name}.{language}", lines)


def is_clean(german: str, english: str) -> bool:
    shorter, longer = sorted((len(german.split()), len(english.split())))
    return shorter >= 1 and longer <= LONGEST and longer <= RATIO * shorter


def split(folder: Path) -> None:
    """Replaces ``FOLDER/all.{de,en}`` by ``train`` and ``valid``.

    Raises:
        CorpusError: too few pairs are left after cleaning
    """
    sides = read_pair(folder, [f"all.{language}" for language in LANGUAGES])
    kept = [pair for pair in zip(*sides) if is_clean(*pair)]
    if len(kept) < EVERY:
        raise CorpusError(f"{len(kept)} of {len(sides[0])} training pairs are left after cleaning: too few to split")
    _write_sides(folder, "valid", zip(*kept[EVERY - 1 :: EVERY]))
    _write_sides(folder, "train", zip(*(pair for number, pair in enumerate(kept, 1) if number % EVERY)))
    for language in LANGUAGES:
        (folder / f"all.{language}").unlink()
    print(f"note: cleaning left {len(kept)} of {len(sides[0])} training pairs", flush=True)
