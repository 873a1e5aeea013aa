"""Corpora of labelled documents as text for fairseq-preprocess: polarity and IMDB.

Each reader takes the folder of the corpus and gives the documents of ``train``, ``valid`` and ``test``. A damaged or
missing file raises ``CorpusError``.
"""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import Callable, Dict, Iterable, List, Pattern, Tuple

from fairseq_attn_plugin.text.documents import Document, write_documents
from fairseq_attn_plugin.text.reading import Reading, split_sentences, word_splitter

from .files import CorpusError, members_of

__all__ = ["imdb", "polarity", "write_corpus"]

Splits = Dict[str, Iterable[Document]]


def write_corpus(splits: Splits, to: Path) -> None:
    """Writes ``TO/SPLIT.input0`` and ``TO/SPLIT.label``; raises ``CorpusError`` if a split is empty."""
    for split, part in splits.items():
        documents, sentences, words = write_documents(part, to / split)
        if not documents:
            raise CorpusError(f"the {split} split is empty: the corpus is truncated, or too small")
        print(f"note: {split}: {documents} documents, {sentences} sentences, {words} words", flush=True)


def _tokenized(text: str, label: str, number: str) -> Document:
    """Lower-cased, split into sentences and Moses-tokenised; a document without words has the word ``<empty>``."""
    sentences = [found for found in map(_splitter(), split_sentences(text)) if found]
    return Document(sentences or [["<empty>"]], label, number)


@functools.lru_cache(maxsize=None)
def _splitter() -> Callable[[str], List[str]]:
    return word_splitter(Reading(tokenize=True, lowercase=True))


# --- polarity: 2,000 film reviews in ten folds, one sentence per line

_REVIEW = re.compile(r"(?:^|/)(neg|pos)/(cv\d{3}_\d+)\.txt$")


def polarity(folder: Path, fold: int) -> Splits:
    """One fold, of the archive or its files. Test: ``fold``; validation: the next one."""
    found = _reviews_in(folder, "review_polarity.tar.gz", _REVIEW)
    documents = [_review(name, text) for name, text in found]
    if not documents:
        raise CorpusError(
            f"{folder} has no reviews: expected review_polarity.tar.gz, or its txt_sentoken/neg/cv*.txt and "
            "txt_sentoken/pos/cv*.txt"
        )
    documents.sort(key=lambda document: (str(document.id), str(document.label)))
    splits: Dict[str, List[Document]] = {"train": [], "valid": [], "test": []}
    for document in documents:
        after = (int(str(document.id)[2]) - fold) % 10  # cvNNN: the name tells the fold
        splits["test" if after == 0 else "valid" if after == 1 else "train"].append(document)
    return dict(splits)


def _reviews_in(folder: Path, archive: str, name: Pattern[str]) -> Iterable[Tuple[str, bytes]]:
    """Names and contents of the files in an archive, or else in the folder, whose names fit."""
    if (folder / archive).is_file():
        return members_of(folder / archive, name)
    paths = (path for path in folder.glob("**/*.txt") if name.search(path.as_posix()))
    return ((path.as_posix(), path.read_bytes()) for path in paths)


def _review(name: str, text: bytes) -> Document:
    label, number = _REVIEW.search(name).groups()  # type: ignore[union-attr]
    # a few reviews have a byte of Latin-1
    lines = [line.split() for line in text.decode("latin-1").split("\n")]
    return Document([line for line in lines if line], label, number)


# --- IMDB of Maas et al. (2011), "Learning Word Vectors for Sentiment Analysis": 50,000 film reviews

_RATED = re.compile(r"(?:^|/)(train|test)/(neg|pos)/(\d+)_\d+\.txt$")


def imdb(folder: Path) -> Splits:
    """25,000 reviews to train on, of which every fifth goes to validation, and 25,000 to test on.

    They are files ``aclImdb/{train,test}/{neg,pos}/ID_RATING.txt``, in the archive or unpacked.
    """
    splits: Dict[str, List[Tuple[int, str, str]]] = {"train": [], "valid": [], "test": []}  # id, label, text
    for name, text in _reviews_in(folder, "aclImdb_v1.tar.gz", _RATED):
        part, label, number = _RATED.search(name).groups()  # type: ignore[union-attr]
        split = "valid" if part == "train" and int(number) % 5 == 0 else part
        splits[split].append((int(number), label, text.decode("utf-8").replace("<br />", "\n")))
    for split, reviews in splits.items():
        if not reviews:
            raise CorpusError(
                f"{folder} has no reviews of {split}: expected aclImdb_v1.tar.gz, or its files "
                "aclImdb/{train,test}/{neg,pos}/ID_RATING.txt"
            )
    return {
        split: (_tokenized(text, label, str(number)) for number, label, text in sorted(reviews))
        for split, reviews in splits.items()
    }
