#!/usr/bin/env python3
"""One fold of the polarity corpus (2,000 film reviews), as text for fairseq-preprocess."""

import argparse
import gzip
import re
import sys
import tarfile
import zlib
from pathlib import Path
from typing import Dict, Iterator, List, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from parallel_text import CorpusError, find, status_of

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.documents import Document, documents_of, write_documents

REVIEWS = 2000
NAME = re.compile(r"(?:^|/)(neg|pos)/(cv\d{3}_\d+)\.txt$")


def review(name: str, label: str, text: bytes) -> Document:
    # a sentence a line; a few reviews have a byte of Latin-1
    lines = [line.split() for line in text.decode("latin-1").split("\n")]
    return Document([line for line in lines if line], label, name)


def files(folder: Path) -> Iterator[Tuple[str, bytes]]:
    """Names and contents of the corpus's files, in its archive or unpacked."""
    archive = folder / "review_polarity.tar.gz"
    if archive.is_file():
        try:
            with tarfile.open(archive, "r:gz") as opened:
                for member in opened:
                    stream = opened.extractfile(member) if NAME.search(member.name) else None
                    if stream is not None:
                        yield member.name, stream.read()
        except (EOFError, OSError, tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
            raise CorpusError(
                "%s is truncated or no archive (%s): remove it and fetch it again" % (archive, error)
            ) from None
        return
    for path in sorted(folder.glob("**/txt_sentoken/*/cv*.txt")):
        yield path.as_posix(), path.read_bytes()


def read_reviews(folder: Path) -> List[Document]:
    if not folder.is_dir():
        raise CorpusError("DATA=%s is no folder" % folder)
    jsonl = find(folder, "polarity.jsonl")
    if jsonl is not None:
        try:
            return list(documents_of(jsonl))
        except OptionError as error:
            raise CorpusError(str(error)) from None
    found = []
    for name, text in files(folder):
        match = NAME.search(name)
        if match is not None:
            found.append(review(match.group(2), match.group(1), text))
    if not found:
        raise CorpusError(
            "%s has no reviews: expected review_polarity.tar.gz, its txt_sentoken/neg/cv*.txt and "
            "txt_sentoken/pos/cv*.txt, or polarity.jsonl" % folder
        )
    return sorted(found, key=lambda document: (str(document.id), str(document.label)))


def fold_of(document: Document) -> int:
    match = re.match(r"cv(\d)\d\d(?:_|$)", document.id or "")
    if match is None:
        raise CorpusError("a review is named %s, must be cvNNN, which tells its fold" % document.id)
    return int(match.group(1))


def splits_of(documents: List[Document], fold: int) -> Dict[str, List[Document]]:
    """Test: ``fold``; validation: the one after it; training: all others."""
    splits: Dict[str, List[Document]] = {"train": [], "valid": [], "test": []}
    for document in documents:
        number = fold_of(document)
        splits["test" if number == fold else "valid" if number == (fold + 1) % 10 else "train"].append(document)
    for split, part in splits.items():
        if not part:
            raise CorpusError("fold %d: the %s split is empty; %d reviews are too few" % (fold, split, len(documents)))
    return splits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True, help="where the corpus lies")
    parser.add_argument("--fold", required=True, type=int, choices=range(10), help="the test fold")
    parser.add_argument("--to", required=True, help="folder for {train,valid,test}.{input0,label}")
    parser.add_argument("--strict", action="store_true", help="fewer reviews than the corpus has are an error")
    args = parser.parse_args()
    documents = read_reviews(Path(args.folder))
    if len(documents) < REVIEWS:
        report = "%s holds %d reviews, the corpus %d" % (args.folder, len(documents), REVIEWS)
        if args.strict:
            raise CorpusError(report + ": the download is truncated, remove it and fetch it again")
        print("note: " + report, file=sys.stderr)
    for split, part in splits_of(documents, args.fold).items():
        print("note: %s: %d documents, %d sentences, %d words" % (split, *write_documents(part, Path(args.to) / split)))


if __name__ == "__main__":
    sys.exit(status_of(main))
