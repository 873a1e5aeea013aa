"""IMDB of Maas et al. (2011), "Learning Word Vectors for Sentiment Analysis", as text for fairseq-preprocess.

50,000 film reviews are positive or negative: 25,000 to train on, of which every fifth goes to validation, and 25,000
to test on. They are files ``aclImdb/{train,test}/{neg,pos}/ID_RATING.txt``, in the archive or unpacked. Tables serve as
well: ``train``, ``val`` and ``test``, each as ``.tsv`` with label, rating, id and text in its columns.
"""

from __future__ import annotations

import gzip
import lzma
import re
import zlib
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from fairseq_attn_plugin.text.documents import Document, write_documents
from fairseq_attn_plugin.text.reading import Reading, split_sentences, word_splitter

from .errors import CorpusError
from .files import check_folder, members_of, note_documents, note_fewer

__all__ = ["read_splits", "write_splits"]

NAME = re.compile(r"(?:^|/)(train|test)/(neg|pos)/(\d+)_\d+\.txt$")
EVERY = 5
REVIEWS = {"train": 20000, "valid": 5000, "test": 25000}
TABLES = {"train": "train.tsv", "valid": "val.tsv", "test": "test.tsv"}
OPENERS: Dict[str, Callable[..., Any]] = {"": open, ".gz": gzip.open, ".xz": lzma.open}

Review = Tuple[str, str, str]  # label, id, text


def _table(folder: Path, name: str) -> Optional[List[Review]]:
    """The reviews of one table, None if there is no such file."""
    path = next((folder / (name + suffix) for suffix in OPENERS if (folder / (name + suffix)).is_file()), None)
    if path is None:
        return None
    reviews = []
    try:
        with OPENERS[path.suffix if path.suffix in OPENERS else ""](path, "rb") as stream:
            for number, line in enumerate(stream, 1):
                row = line.decode("utf-8").rstrip("\r\n").split("\t")
                if len(row) != 4 or row[0] not in ("neg", "pos"):
                    raise CorpusError(
                        f"{path}, line {number}: must be label (neg or pos), rating, id and text, by tabs"
                    )
                reviews.append((row[0], row[2], row[3]))
    except (EOFError, OSError, lzma.LZMAError, zlib.error, UnicodeDecodeError) as error:
        raise CorpusError(f"{path} is damaged ({error}): fetch it again") from None
    return reviews


def _files(folder: Path) -> Iterator[Tuple[str, bytes]]:
    """Names and contents of the reviews, in the archive or unpacked."""
    archive = folder / "aclImdb_v1.tar.gz"
    if archive.is_file():
        yield from members_of(archive, NAME)
        return
    for path in folder.glob("**/*_*.txt"):
        if NAME.search(path.as_posix()):
            yield path.as_posix(), path.read_bytes()


def read_splits(folder: Path) -> Dict[str, List[Review]]:
    """Reviews of the training, validation and test set.

    Raises:
        CorpusError: the folder has no reviews, or they are damaged
    """
    check_folder(folder)
    tables = {split: _table(folder, name) for split, name in TABLES.items()}
    if all(tables.values()):
        return {split: reviews or [] for split, reviews in tables.items()}
    splits: Dict[str, List[Review]] = {split: [] for split in TABLES}
    for name, text in _files(folder):
        part, label, number = NAME.search(name).groups()  # type: ignore[union-attr]
        split = "valid" if part == "train" and int(number) % EVERY == 0 else part
        splits[split].append((label, number, text.decode("utf-8")))
    for split, reviews in splits.items():
        if not reviews:
            raise CorpusError(
                f"{folder} has no reviews of {split}: expected aclImdb_v1.tar.gz, its files "
                "aclImdb/{train,test}/{neg,pos}/ID_RATING.txt, or train, val and test as .tsv (or .gz, .xz)"
            )
        reviews.sort(key=lambda review: (int(review[1]), review[0]))
    return splits


def write_splits(folder: Path, to: Path, strict: bool = False) -> None:
    """Writes ``TO/{train,valid,test}.{input0,label}``.

    Args:
        folder: of the corpus
        to: folder for the text
        strict: whether fewer reviews than the corpus has are an error; otherwise they are a note
    """
    words = word_splitter(Reading(tokenize=True, lowercase=True))
    for split, reviews in read_splits(folder).items():
        documents = (
            Document(
                [found for found in map(words, split_sentences(text.replace("<br />", "\n"))) if found], label, number
            )
            for label, number, text in reviews
        )
        note_documents(split, write_documents(documents, to / split))
        if len(reviews) < REVIEWS[split]:
            note_fewer(f"{folder} holds {len(reviews)} reviews of {split}, the corpus {REVIEWS[split]}", strict)
