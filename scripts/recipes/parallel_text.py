#!/usr/bin/env python3
"""Reads a corpus in the form its makers publish it and writes it as plain text, one sentence a line.

``import`` takes one split: two files (plain, gzip, or the SGML of the WMT test sets), checks that they are
whole and parallel, normalises white space and, on request, tokenises (Moses rules, or bare words) and lower-cases.
``cut`` shortens both sides of a split to a number of tokens; ``drop`` leaves out the pairs that are longer.

A mistake of the user or a damaged file ends in one line on stderr and exit status 1; what is written appears
under its final name only when it is complete.
"""

import argparse
import gzip
import html
import os
import re
import sys
import unicodedata
import zlib
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Callable, Iterable, List, Optional, Sequence, Tuple

from tqdm import tqdm

SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)
CHUNK = 2000  # sentences a worker takes at a time: long enough to hide what it costs to send them


class CorpusError(Exception):
    """The corpus is missing, damaged or not parallel; the message is the whole report."""


def find(folder: Path, names: str) -> Optional[Path]:
    """The first of the alternatives ``a|b`` that lies in ``folder``, gzipped or plain."""
    for name in names.split("|"):
        for candidate in (folder / (name + ".gz"), folder / name):
            if candidate.is_file():
                return candidate
    return None


def read_text(path: Path) -> str:
    """The whole of a plain or gzipped UTF-8 file."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError("%s is truncated or no gzip file (%s): fetch it again" % (path, error)) from None
    except UnicodeDecodeError as error:
        raise CorpusError("%s is not UTF-8 at byte %d: fetch it again" % (path, error.start)) from None
    except OSError as error:
        raise CorpusError("%s cannot be read: %s" % (path, error.strerror)) from None


def split_lines(text: str) -> List[str]:
    """Only a newline ends a line: sentences may hold U+2028 and its kin, where ``str.splitlines`` splits."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_lines(path: Path) -> List[str]:
    """Sentences of a file, white space normalised."""
    text = read_text(path)
    if ".sgm" in path.name:
        if "</refset>" not in text.lower() and "</srcset>" not in text.lower():
            raise CorpusError("%s is truncated: its SGML has no end tag; fetch it again" % path)
        lines = [html.unescape(segment) for segment in SEGMENT.findall(text)]
    else:
        lines = split_lines(text)
    return [" ".join(line.split()) for line in lines]


def read_pair(folder: Path, names: Sequence[str], expected: str = "") -> Tuple[List[str], List[str]]:
    """Both sides of a split, of the same number of lines, at least one of them."""
    found = []
    for name in names:
        path = find(folder, name)
        if path is None:
            first, *others = name.split("|")
            also = " or ".join([first] + others)
            wanted = ": expected " + expected if expected else ""
            raise CorpusError("%s.gz (or %s) is missing in %s%s" % (first, also, folder, wanted))
        found.append(path)
    sides = [read_lines(path) for path in found]
    if len(sides[0]) != len(sides[1]):
        raise CorpusError(
            "%s has %d lines and %s has %d: the two must be parallel, one is truncated or of another version"
            % (found[0], len(sides[0]), found[1], len(sides[1]))
        )
    if not sides[0]:
        raise CorpusError("%s is empty" % found[0])
    return sides[0], sides[1]


class Tokenizer:
    """Moses tokenisation of one language, with Moses' escapes (``&apos;``), of normalised punctuation or as it is."""

    def __init__(self, language: str, normalize: bool = True):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        self.normalizer = MosesPunctNormalizer(lang=language) if normalize else None
        self.tokenizer = MosesTokenizer(lang=language)

    def __call__(self, lines: Iterable[str]) -> List[str]:
        if self.normalizer is not None:
            lines = map(self.normalizer.normalize, lines)
        return [self.tokenizer.tokenize(line, return_str=True) for line in lines]


def tokenize(lines: List[str], language: str, jobs: int, normalize: bool = True) -> List[str]:
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    work: Callable[[Iterable[str]], List[str]] = Tokenizer(language, normalize)
    bar = tqdm(total=len(lines), desc="tokenise " + language, unit=" sentences", disable=None)
    done: List[str] = []
    if jobs > 1 and len(chunks) > 1:
        with ProcessPoolExecutor(jobs) as pool:
            for part in pool.map(work, chunks):
                done += part
                bar.update(len(part))
    else:
        for chunk in chunks:
            done += work(chunk)
            bar.update(len(chunk))
    bar.close()
    return done


def bare_words(line: str) -> str:
    """Words as white space separates them, without the punctuation at their ends: as many as before.

    A word of nothing but punctuation stays as it is.
    """
    return " ".join(map(_bare, line.replace("\u2019", "'").split()))


def _bare(word: str) -> str:
    inner = [number for number, c in enumerate(word) if unicodedata.category(c)[0] != "P"]
    return word[inner[0] : inner[-1] + 1] if inner else word


def write_lines(path: Path, lines: Iterable[str]) -> None:
    partial = path.with_name(path.name + ".partial")
    with open(partial, "w", encoding="utf-8", newline="\n") as stream:
        stream.writelines(line + "\n" for line in lines)
    os.replace(partial, path)


def import_split(args: argparse.Namespace) -> None:
    folder = Path(args.folder)
    if not folder.is_dir():
        raise CorpusError("DATA=%s is no folder" % folder)
    tokenized = args.tokenized and all(find(folder, name) for name in args.tokenized)
    sides = read_pair(folder, args.tokenized if tokenized else args.files, args.expected)
    if len(sides[0]) < args.at_least:
        report = "%s holds %d sentence pairs, the published corpus at least %d" % (
            args.files[0],
            len(sides[0]),
            args.at_least,
        )
        if args.strict:
            raise CorpusError(report + ": the download is truncated, remove it and fetch it again")
        print("note: " + report, file=sys.stderr)
    # the untouched references, for detokenised scores: there are none if only tokenised files came
    if args.raw and (not tokenized or all(find(folder, name) for name in args.files)):
        raw = read_pair(folder, args.files) if tokenized else sides
        if len(raw[0]) != len(sides[0]):
            raise CorpusError("%s and %s differ in length" % (args.files[0], args.tokenized[0]))
        for language, lines in zip(args.languages, raw):
            write_lines(Path("%s.raw.%s" % (args.to, language)), lines)
    if args.drop_empty:
        kept = [pair for pair in zip(*sides) if all(pair)]
        if len(kept) < len(sides[0]):
            print("note: dropped %d pairs with an empty side" % (len(sides[0]) - len(kept)), file=sys.stderr)
        if not kept:
            raise CorpusError("%s has no pair with words on both sides" % args.files[0])
        sides = ([pair[0] for pair in kept], [pair[1] for pair in kept])
    for language, lines in zip(args.languages, sides):
        if args.tokenize and not tokenized:
            lines = tokenize(lines, language, args.jobs, not args.keep_punctuation)
        if args.bare_words:
            lines = list(map(bare_words, lines))
        if args.lowercase:
            lines = [line.lower() for line in lines]
        write_lines(Path("%s.%s" % (args.to, language)), lines)


def cut_split(args: argparse.Namespace) -> None:
    for language in args.languages:
        path = Path("%s.%s" % (args.split, language))
        lines = read_lines(path)
        longer = sum(len(line.split()) > args.length for line in lines)
        write_lines(path, (" ".join(line.split()[: args.length]) for line in lines))
        print("note: cut %d of %d lines of %s to %d tokens" % (longer, len(lines), path.name, args.length))


def drop_split(args: argparse.Namespace) -> None:
    paths = [Path("%s.%s" % (args.split, language)) for language in args.languages]
    sides = read_pair(paths[0].parent, [path.name for path in paths])
    kept = [pair for pair in zip(*sides) if max(len(side.split()) for side in pair) <= args.length]
    if not kept:
        raise CorpusError("every pair of %s has more than %d tokens on a side" % (args.split, args.length))
    for path, lines in zip(paths, zip(*kept)):
        write_lines(path, lines)
    print("note: dropped %d pairs of more than %d tokens" % (len(sides[0]) - len(kept), args.length))


def status_of(main: Callable[[], None]) -> int:
    """Exit status of one of these tools; what is wrong with a corpus is one line."""
    try:
        main()
    except CorpusError as error:
        print("error: %s" % error, file=sys.stderr)
        return 1
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    take = commands.add_parser("import", help="one split of a published corpus")
    take.add_argument("--folder", required=True, help="where the published files lie")
    take.add_argument("--files", nargs=2, required=True, help="their names without .gz; alternatives: a|b")
    take.add_argument("--tokenized", nargs=2, help="names of tokenised versions, taken instead if both exist")
    take.add_argument("--languages", nargs=2, required=True)
    take.add_argument("--expected", default="", help="what the folder must hold, for the report of a missing file")
    take.add_argument("--to", required=True, help="prefix of what is written")
    take.add_argument("--tokenize", action="store_true")
    take.add_argument("--keep-punctuation", action="store_true", help="tokenise without normalising punctuation")
    take.add_argument("--bare-words", action="store_true", help="words between white space, outer punctuation off")
    take.add_argument("--lowercase", action="store_true")
    take.add_argument("--drop-empty", action="store_true", help="drop pairs with an empty side")
    take.add_argument("--raw", action="store_true", help="also keep the text as it was, as TO.raw.LANGUAGE")
    take.add_argument("--at-least", type=int, default=1, help="sentence pairs of the published corpus")
    take.add_argument("--strict", action="store_true", help="fewer pairs are an error")
    take.add_argument("--jobs", type=int, default=1)
    cut = commands.add_parser("cut", help="cut both sides of a split to a number of tokens")
    drop = commands.add_parser("drop", help="leave out pairs with more tokens on a side")
    for command in (cut, drop):
        command.add_argument("split", help="prefix of the two files")
        command.add_argument("--languages", nargs=2, required=True)
        command.add_argument("--length", type=int, required=True)
    args = parser.parse_args()
    {"import": import_split, "cut": cut_split, "drop": drop_split}[args.command](args)


if __name__ == "__main__":
    sys.exit(status_of(main))
