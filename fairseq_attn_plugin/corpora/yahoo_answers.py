"""Yahoo Answers of Zhang et al. (2015) as text for fairseq-preprocess: ten topics of questions with their best answers.

A row of ``train.csv`` and ``test.csv`` is class, title, question and best answer, with ``\\n`` for a line break. Every
tenth row of ``train.csv`` goes to validation.
"""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Iterator, Optional

from fairseq_attn_plugin.text.documents import Document, write_documents
from fairseq_attn_plugin.text.reading import Reading, split_sentences, word_splitter

from .errors import CorpusError
from .files import find, note_documents, note_fewer

__all__ = ["read_questions", "write_splits"]

# rows of the published files
ROWS = {"train.csv": 1400000, "test.csv": 60000}
EVERY = 10


def read_questions(path: Path, tenth: Optional[bool] = None) -> Iterator[Document]:
    """The questions of one file; one without words has the word ``<empty>``.

    Args:
        path: of the file
        tenth: whether every tenth row is read, or all others; None: all rows

    Raises:
        CorpusError: a row is not class, title, question and answer
    """
    words = word_splitter(Reading(tokenize=True, lowercase=True))
    opened = gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb")  # noqa: SIM115 (closed below)
    with opened as stream, io.TextIOWrapper(stream, encoding="utf-8", newline="") as text:  # type: ignore[type-var]
        for number, row in enumerate(csv.reader(text), 1):
            if len(row) != 4 or row[0] not in {str(label) for label in range(1, 11)}:
                raise CorpusError(f"{path}, row {number}: must be class (1 to 10), title, question and answer")
            if tenth not in (None, number % EVERY == 0):
                continue
            plain = "\n".join(row[1:]).replace("\\n", "\n")
            sentences = [found for found in map(words, split_sentences(plain)) if found]
            yield Document(sentences or [["<empty>"]], row[0], str(number))


def write_splits(folder: Path, to: Path, strict: bool = False) -> None:
    """Writes ``TO/{train,valid,test}.{input0,label}``.

    Args:
        folder: of the corpus
        to: folder for the text
        strict: whether fewer rows than the corpus has are an error; otherwise they are a note
    """
    parts = (("train", "train.csv", False), ("valid", "train.csv", True), ("test", "test.csv", None))
    for split, name, wanted in parts:
        path = find(folder, f"{name}|yahoo_answers_csv/{name}")
        if path is None:
            raise CorpusError(f"{name} (or {name}.gz) is missing in {folder}")
        counts = write_documents(read_questions(path, wanted), to / split)
        note_documents(split, counts)
        share = {None: 1.0, True: 1 / EVERY, False: 1 - 1 / EVERY}[wanted]
        if counts[0] < round(ROWS[name] * share):
            report = f"{path} holds {counts[0]} questions of {split}, the published one {round(ROWS[name] * share)}"
            note_fewer(report, strict or not counts[0])
