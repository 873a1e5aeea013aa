"""One fold of the polarity corpus (2,000 film reviews) as text for fairseq-preprocess."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

from fairseq_attn_plugin.text.documents import Document, documents_of, write_documents

from .errors import CorpusError, OptionError
from .files import check_folder, find, members_of, note_documents, note_fewer

__all__ = ["read_reviews", "splits_of", "write_fold"]

REVIEWS = 2000
NAME = re.compile(r"(?:^|/)(neg|pos)/(cv\d{3}_\d+)\.txt$")


def _review(name: str, label: str, text: bytes) -> Document:
    # one sentence per line; a few reviews have a byte of Latin-1
    lines = [line.split() for line in text.decode("latin-1").split("\n")]
    return Document([line for line in lines if line], label, name)


def _files(folder: Path) -> Iterator[Tuple[str, bytes]]:
    """Names and contents of the files of the corpus, in its archive or unpacked."""
    archive = folder / "review_polarity.tar.gz"
    if archive.is_file():
        yield from members_of(archive, NAME)
        return
    for path in sorted(folder.glob("**/txt_sentoken/*/cv*.txt")):
        yield path.as_posix(), path.read_bytes()


def read_reviews(folder: Path) -> List[Document]:
    """All reviews, from ``polarity.jsonl``, the archive or its files.

    Raises:
        CorpusError: the folder has no reviews, or they are damaged
    """
    check_folder(folder)
    jsonl = find(folder, "polarity.jsonl")
    if jsonl is not None:
        try:
            return list(documents_of(jsonl))
        except OptionError as error:
            raise CorpusError(str(error)) from None
    found = []
    for name, text in _files(folder):
        match = NAME.search(name)
        if match is not None:
            found.append(_review(match.group(2), match.group(1), text))
    if not found:
        raise CorpusError(
            f"{folder} has no reviews: expected review_polarity.tar.gz, its txt_sentoken/neg/cv*.txt and "
            "txt_sentoken/pos/cv*.txt, or polarity.jsonl"
        )
    return sorted(found, key=lambda document: (str(document.id), str(document.label)))


def _fold_of(document: Document) -> int:
    match = re.match(r"cv(\d)\d\d(?:_|$)", document.id or "")
    if match is None:
        raise CorpusError(f"a review is named {document.id}, must be cvNNN: the name tells the fold")
    return int(match.group(1))


def splits_of(documents: List[Document], fold: int) -> Dict[str, List[Document]]:
    """Test: ``fold``; validation: the next one; training: all others.

    Raises:
        CorpusError: a name tells no fold, or a split is empty
    """
    splits: Dict[str, List[Document]] = {"train": [], "valid": [], "test": []}
    for document in documents:
        number = _fold_of(document)
        splits["test" if number == fold else "valid" if number == (fold + 1) % 10 else "train"].append(document)
    for split, part in splits.items():
        if not part:
            raise CorpusError(f"fold {fold}: the {split} split is empty; {len(documents)} reviews are too few")
    return splits


def write_fold(folder: Path, fold: int, to: Path, strict: bool = False) -> None:
    """Writes ``TO/{train,valid,test}.{input0,label}``.

    Args:
        folder: of the corpus
        fold: the test fold, 0 to 9
        to: folder for the text
        strict: whether fewer reviews than the corpus has are an error; otherwise they are a note
    """
    documents = read_reviews(folder)
    if len(documents) < REVIEWS:
        report = f"{folder} holds {len(documents)} reviews, the corpus {REVIEWS}"
        note_fewer(report, strict)
    for split, part in splits_of(documents, fold).items():
        counts = write_documents(part, to / split)
        note_documents(split, counts)
