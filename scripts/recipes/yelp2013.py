#!/usr/bin/env python3
"""Yelp 2013 of Tang et al. (2015) as text for fairseq-preprocess.

A line is user, product, stars and text, with two tabs between them and ``<sssss>`` between the sentences of the text.
"""

import argparse
import sys
from pathlib import Path
from typing import Iterator

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from parallel_text import CorpusError, read_text, split_lines, status_of

from fairseq_attn_plugin.text.documents import Document, write_documents
from fairseq_attn_plugin.text.reading import split_sentences

# in the corpus, and reviews that it has at least: 335,018 in all, a tenth each for validation and test
SPLITS = {"train": ("train", 260000), "valid": ("dev", 33000), "test": ("test", 33000)}
STARS = ("1", "2", "3", "4", "5")


def read_reviews(path: Path) -> Iterator[Document]:
    for number, line in enumerate(split_lines(read_text(path)), start=1):
        fields = [field for field in line.split("\t") if field.strip()]
        if len(fields) != 4 or fields[2].strip() not in STARS:
            raise CorpusError(
                "%s, line %d: must be user, product, one to five stars and text, with tabs between them"
                % (path, number)
            )
        sentences = [sentence.split() for sentence in split_sentences(fields[3], "<sssss>")]
        yield Document(sentences, fields[2].strip(), str(number))


def find_below(folder: Path, name: str) -> Path:
    """The file, gzipped or plain, in the folder or one below it: the archive has a folder of its own."""
    for pattern in (name, name + ".gz", "*/" + name, "*/" + name + ".gz"):
        for path in sorted(folder.glob(pattern)):
            return path
    raise CorpusError("%s is missing in %s: expected yelp-2013-{train,dev,test}.txt.ss" % (name, folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--folder", required=True, type=Path, help="where the corpus lies")
    parser.add_argument("--to", required=True, type=Path, help="folder for {train,valid,test}.{input0,label}")
    parser.add_argument("--strict", action="store_true", help="fewer reviews than the corpus has are an error")
    args = parser.parse_args()
    if not args.folder.is_dir():
        raise CorpusError("DATA=%s is no folder" % args.folder)
    for split, (name, published) in SPLITS.items():
        path = find_below(args.folder, "yelp-2013-%s.txt.ss" % name)
        counts = write_documents(read_reviews(path), args.to / split)
        print("note: %s: %d documents, %d sentences, %d words" % (split, *counts))
        if counts[0] < published:
            report = "%s holds %d reviews, the published file at least %d" % (path, counts[0], published)
            if args.strict or not counts[0]:
                raise CorpusError(report + ": the download is truncated, remove it and fetch it again")
            print("note: " + report, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(status_of(main))
