#!/usr/bin/env python3
"""The IWSLT'14 archive of WIT3, German-English, in the split that most papers use: 160,239 / 7,283 / 6,750 pairs.

``extract`` takes the sentences out of the archive's files. Lines with a talk's address, key words or number are left
out of the training text; titles and descriptions are sentences of it. The test set is the five development and test
sets of 2010 to 2012, one after the other. Their typographic apostrophes become plain ones, as in the training text;
nothing else is mended, so that scores can be compared.

``split`` cleans the tokenised training text, as Moses' clean-corpus-n does: of 1 to 175 tokens on each side, and no
side more than 1.5 times as long as the other. Every 23rd pair of what is left goes to validation.
"""

import argparse
import re
import sys
from pathlib import Path
from typing import List

from parallel_text import SEGMENT, CorpusError, find, read_pair, read_text, split_lines, status_of, write_lines

LANGUAGES = ("de", "en")
METADATA = re.compile(r"<(url|talkid|keywords)>")
TITLE = re.compile(r"</?(title|description)>")
END = re.compile(r"</(srcset|refset|mteval)>")
LONGEST, RATIO, EVERY = 175, 1.5, 23


def training_lines(path: Path) -> List[str]:
    return [TITLE.sub("", line) for line in split_lines(read_text(path)) if not METADATA.search(line)]


def test_lines(path: Path) -> List[str]:
    text = read_text(path)
    if not END.search(text):
        raise CorpusError("%s is truncated: its XML has no end tag; fetch it again" % path)
    return [" ".join(segment.split()).replace("\u2019", "'") for segment in SEGMENT.findall(text)]


def extract(args: argparse.Namespace) -> None:
    folder = Path(args.folder)
    read = {"train.tags.de-en.%s": training_lines}
    read.update({"IWSLT14.%s.de-en.%%s.xml" % name: test_lines for name in args.test_sets})
    paths = {name % language: find(folder, name % language) for name in read for language in LANGUAGES}
    missing = [name for name, path in paths.items() if path is None]
    if missing:
        raise CorpusError("%s: missing in %s: expected the whole archive de-en.tgz" % (", ".join(missing), folder))
    whole: List[List[str]] = [[], []]
    for name, lines_of in read.items():
        sides = [lines_of(paths[name % language]) for language in LANGUAGES]
        if len(sides[0]) != len(sides[1]):
            raise CorpusError(
                "%s has %d sentences in German and %d in English: the two must be parallel, fetch them again"
                % (folder / name.replace("%s", "{de,en}"), len(sides[0]), len(sides[1]))
            )
        if lines_of is training_lines:
            write_sides(args.to, "all", sides)
        else:
            whole = [before + lines for before, lines in zip(whole, sides)]
    write_sides(args.to, "test", whole)


def write_sides(folder: str, split: str, sides) -> None:
    for language, lines in zip(LANGUAGES, sides):
        write_lines(Path(folder) / ("%s.%s" % (split, language)), lines)


def clean(german: str, english: str) -> bool:
    shorter, longer = sorted((len(german.split()), len(english.split())))
    return shorter >= 1 and longer <= LONGEST and longer <= RATIO * shorter


def split(args: argparse.Namespace) -> None:
    folder = Path(args.folder)
    sides = read_pair(folder, ["all.%s" % language for language in LANGUAGES])
    kept = [pair for pair in zip(*sides) if clean(*pair)]
    if len(kept) < EVERY:
        raise CorpusError(
            "%d of %d training pairs are left after cleaning: too few to split" % (len(kept), len(sides[0]))
        )
    write_sides(args.folder, "valid", zip(*kept[EVERY - 1 :: EVERY]))
    write_sides(args.folder, "train", zip(*(pair for number, pair in enumerate(kept, 1) if number % EVERY)))
    for language in LANGUAGES:
        (folder / ("all." + language)).unlink()
    print("note: cleaning left %d of %d training pairs" % (len(kept), len(sides[0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    take = commands.add_parser("extract", help="plain text out of the archive: all (the training text) and test")
    take.add_argument("folder", help="the unpacked archive")
    take.add_argument("to", help="folder for what is written")
    take.add_argument("test_sets", nargs="+", help="names of the sets that make up the test set, in order")
    part = commands.add_parser("split", help="the training text, tokenised, into train and valid")
    part.add_argument("folder", help="folder with all.{de,en}")
    args = parser.parse_args()
    {"extract": extract, "split": split}[args.command](args)


if __name__ == "__main__":
    sys.exit(status_of(main))
