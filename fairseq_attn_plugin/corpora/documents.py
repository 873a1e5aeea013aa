"""Corpora of labelled documents as text for fairseq-preprocess: polarity, IMDB, Yelp 2013, Yahoo Answers.

Each reader takes the folder of the corpus and gives the documents of ``train``, ``valid`` and ``test``. A damaged or
missing file raises ``OptionError``.
"""

import csv
import io
import re
from pathlib import Path
from typing import Dict, Iterable, Iterator, List, Optional

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.documents import Document, documents_of, write_documents
from fairseq_attn_plugin.text.lines import intact, opened
from fairseq_attn_plugin.text.reading import Reading, split_sentences, word_splitter

from .files import find, members_of, read_text, split_lines

Splits = Dict[str, Iterable[Document]]


def write_corpus(splits: Splits, to: Path) -> None:
    """Writes ``TO/SPLIT.input0`` and ``TO/SPLIT.label``; raises ``OptionError`` if a split is empty."""
    for split, part in splits.items():
        documents, sentences, words = write_documents(part, to / split)
        if not documents:
            raise OptionError(f"the {split} split is empty: the corpus is truncated, or too small")
        print(f"note: {split}: {documents} documents, {sentences} sentences, {words} words", flush=True)


def _tokenized(text: str, label: str, number: str) -> Document:
    """Lower-cased, split into sentences and Moses-tokenised; a document without words has the word ``<empty>``."""
    split = word_splitter(Reading(tokenize=True, lowercase=True))
    sentences = [found for found in map(split, split_sentences(text)) if found]
    return Document(sentences or [["<empty>"]], label, number)


# --- polarity: 2,000 film reviews in ten folds, one sentence per line

_REVIEW = re.compile(r"(?:^|/)(neg|pos)/(cv\d{3}_\d+)\.txt$")


def polarity(folder: Path, fold: int) -> Splits:
    """One fold, of ``polarity.jsonl``, the archive or its files. Test: ``fold``; validation: the next one."""
    jsonl = find(folder, "polarity.jsonl")
    if jsonl is not None:
        documents = list(documents_of(jsonl))
    else:
        documents = []
        for name, text in members_of(folder, "review_polarity.tar.gz", _REVIEW):
            label, number = _REVIEW.search(name).groups()  # type: ignore[union-attr]
            # a few reviews have a byte of Latin-1
            lines = [line.split() for line in text.decode("latin-1").split("\n")]
            documents.append(Document([line for line in lines if line], label, number))
        documents.sort(key=lambda document: (str(document.id), str(document.label)))
    if not documents:
        raise OptionError(
            f"{folder} has no reviews: expected review_polarity.tar.gz, its txt_sentoken/neg/cv*.txt and "
            "txt_sentoken/pos/cv*.txt, or polarity.jsonl"
        )
    splits: Dict[str, List[Document]] = {"train": [], "valid": [], "test": []}
    for document in documents:
        match = re.match(r"cv(\d)\d\d(?:_|$)", document.id or "")
        if match is None:
            raise OptionError(f"a review is named {document.id}, must be cvNNN: the name tells the fold")
        after = (int(match[1]) - fold) % 10
        splits["test" if after == 0 else "valid" if after == 1 else "train"].append(document)
    return dict(splits)


# --- IMDB of Maas et al. (2011), "Learning Word Vectors for Sentiment Analysis": 50,000 film reviews

_RATED = re.compile(r"(?:^|/)(train|test)/(neg|pos)/(\d+)_\d+\.txt$")


def imdb(folder: Path) -> Splits:
    """25,000 reviews to train on, of which every fifth goes to validation, and 25,000 to test on.

    They are files ``aclImdb/{train,test}/{neg,pos}/ID_RATING.txt``, in the archive or unpacked. Tables serve as well:
    ``train``, ``val`` and ``test``, each as ``.tsv`` with label, rating, id and text in its columns.
    """
    splits: Dict[str, List[List[str]]] = {"train": [], "valid": [], "test": []}  # label, rating, id, text
    tables = [find(folder, f"{name}.tsv|{name}.tsv.xz") for name in ("train", "val", "test")]
    if all(tables):
        splits = {split: _table(path) for split, path in zip(splits, tables) if path is not None}
    else:
        for name, text in members_of(folder, "aclImdb_v1.tar.gz", _RATED):
            part, label, number = _RATED.search(name).groups()  # type: ignore[union-attr]
            split = "valid" if part == "train" and int(number) % 5 == 0 else part
            with intact(Path(name)):
                splits[split].append([label, "", number, text.decode("utf-8")])
    for split, reviews in splits.items():
        if not reviews:
            raise OptionError(
                f"{folder} has no reviews of {split}: expected aclImdb_v1.tar.gz, its files "
                "aclImdb/{train,test}/{neg,pos}/ID_RATING.txt, or train, val and test as .tsv (or .gz, .xz)"
            )
        if not all(tables):
            reviews.sort(key=lambda review: (int(review[2]), review[0]))
    return {
        split: (_tokenized(text.replace("<br />", "\n"), label, number) for label, _, number, text in reviews)
        for split, reviews in splits.items()
    }


def _table(path: Path) -> List[List[str]]:
    rows = [line.rstrip("\r").split("\t") for line in split_lines(read_text(path))]
    for number, row in enumerate(rows, 1):
        if len(row) != 4 or row[0] not in ("neg", "pos"):
            raise OptionError(f"{path}, line {number}: must be label (neg or pos), rating, id and text, by tabs")
    return rows


# --- Yelp 2013 of Tang et al. (2015): 335,018 reviews, a tenth each for validation and test


def yelp2013(folder: Path) -> Splits:
    """A line is user, product, stars and text with two tabs between them; ``<sssss>`` separates the sentences.

    The files are in the folder or one below it: the archive has a folder of its own.
    """
    splits: Splits = {}
    for split, part in (("train", "train"), ("valid", "dev"), ("test", "test")):
        name = f"yelp-2013-{part}.txt.ss"
        path = next(filter(None, (find(one, name) for one in (folder, *sorted(folder.glob("*/"))))), None)
        if path is None:
            raise OptionError(
                f"{name} is missing in {folder}: unpack emnlp-2015-data.7z there (7z x), or give --data FOLDER with "
                "yelp-2013-{train,dev,test}.txt.ss"
            )
        splits[split] = _yelp_reviews(path)
    return splits


def _yelp_reviews(path: Path) -> Iterator[Document]:
    for number, line in enumerate(split_lines(read_text(path)), start=1):
        fields = [field for field in line.split("\t") if field.strip()]
        if len(fields) != 4 or fields[2].strip() not in ("1", "2", "3", "4", "5"):
            raise OptionError(
                f"{path}, line {number}: must be user, product, one to five stars and text, with tabs between them"
            )
        sentences = [sentence.split() for sentence in split_sentences(fields[3], "<sssss>")]
        yield Document(sentences, fields[2].strip(), str(number))


# --- Yahoo Answers of Zhang et al. (2015): ten topics of questions with their best answers


def yahoo_answers(folder: Path) -> Splits:
    """A row of ``train.csv`` and ``test.csv`` is class, title, question and best answer, with ``\\n`` for a line break.

    Every tenth row of ``train.csv`` goes to validation.
    """
    splits: Splits = {}
    for split, name, tenth in (("train", "train.csv", False), ("valid", "train.csv", True), ("test", "test.csv", None)):
        path = find(folder, f"{name}|yahoo_answers_csv/{name}")
        if path is None:
            raise OptionError(f"{name} (or {name}.gz) is missing in {folder}")
        splits[split] = _questions(path, tenth)
    return splits


def _questions(path: Path, tenth: Optional[bool]) -> Iterator[Document]:
    """The questions in every tenth row, in all others, or (None) in all."""
    with intact(path), opened(path) as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:
        for number, row in enumerate(csv.reader(text), 1):
            if len(row) != 4 or row[0] not in {str(label) for label in range(1, 11)}:
                raise OptionError(f"{path}, row {number}: must be class (1 to 10), title, question and answer")
            if tenth in (None, number % 10 == 0):
                yield _tokenized("\n".join(row[1:]).replace("\\n", "\n"), row[0], str(number))
