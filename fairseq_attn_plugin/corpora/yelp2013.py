"""Yelp 2013 of Tang et al. (2015) as text for fairseq-preprocess.

A line is user, product, stars and text with two tabs between them; ``<sssss>`` separates the sentences of the text.
"""

from __future__ import annotations

from pathlib import Path
from typing import Iterator

from fairseq_attn_plugin.text.documents import Document, split_sentences, write_documents

from .errors import CorpusError
from .files import check_folder, note_documents, note_fewer, read_text, split_lines

__all__ = ["read_reviews", "write_splits"]

# name in the corpus, and a lower bound on its reviews: 335,018 in all, a tenth each for validation and test
SPLITS = {"train": ("train", 260000), "valid": ("dev", 33000), "test": ("test", 33000)}
STARS = ("1", "2", "3", "4", "5")


def read_reviews(path: Path) -> Iterator[Document]:
    """The reviews of one file.

    Raises:
        CorpusError: a line is not user, product, stars and text
    """
    for number, line in enumerate(split_lines(read_text(path)), start=1):
        fields = [field for field in line.split("\t") if field.strip()]
        if len(fields) != 4 or fields[2].strip() not in STARS:
            raise CorpusError(
                f"{path}, line {number}: must be user, product, one to five stars and text, with tabs between them"
            )
        sentences = [sentence.split() for sentence in split_sentences(fields[3], "<sssss>")]
        yield Document(sentences, fields[2].strip(), str(number))


def _find_below(folder: Path, name: str) -> Path:
    """The file, gzipped or plain, in the folder or one below it: the archive has a folder of its own."""
    for pattern in (name, name + ".gz", "*/" + name, "*/" + name + ".gz"):
        for path in sorted(folder.glob(pattern)):
            return path
    raise CorpusError(f"{name} is missing in {folder}: expected yelp-2013-{{train,dev,test}}.txt.ss")


def write_splits(folder: Path, to: Path, strict: bool = False) -> None:
    """Writes ``TO/{train,valid,test}.{input0,label}``.

    Args:
        folder: of the corpus
        to: folder for the text
        strict: whether fewer reviews than the corpus has are an error; otherwise they are a note
    """
    check_folder(folder)
    for split, (name, published) in SPLITS.items():
        path = _find_below(folder, f"yelp-2013-{name}.txt.ss")
        counts = write_documents(read_reviews(path), to / split)
        note_documents(split, counts)
        if counts[0] < published:
            report = f"{path} holds {counts[0]} reviews, the published file at least {published}"
            note_fewer(report, strict or not counts[0])
