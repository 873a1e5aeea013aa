"""Reads sentence pairs: a table with tabs or ``.csv``, or two aligned files; plain, ``.gz``, or ``.zip``."""

from __future__ import annotations

import csv
import gzip
import zipfile
import zlib
from pathlib import Path, PurePosixPath
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

from fairseq_attn_plugin.corpora.errors import CorpusError
from fairseq_attn_plugin.corpora.files import split_lines

from .columns import choose_columns

__all__ = ["Pair", "read_pairs"]

Pair = Tuple[str, str]
LOOKED_AT = 1000  # rows of a table by which its separator is chosen
MOST_LINES = 20  # of a field in quotation marks; more are a mark without its end


class _Content(NamedTuple):
    name: str
    data: bytes


def read_pairs(
    files: Sequence[Path], languages: Sequence[str], columns: Optional[Sequence[int]] = None
) -> Tuple[List[Pair], str]:
    """The pairs, white space normalised, and a line that says what was read.

    Args:
        files: one table with a pair in each line, or the source file and the target file. A ``.zip`` file holds a table
            or two files whose names end in the languages; a file whose name begins with ``_`` does not count
        languages: of source and target
        columns: of a table, from 1 (default: see :func:`.columns.choose_columns`)

    Raises:
        CorpusError: a file is missing, damaged, empty or not UTF-8, has too few columns, or the two are not parallel
    """
    contents = [one for file in files for one in _contents(file, languages)]
    if len(contents) > 2:
        raise CorpusError(f"{', '.join(map(str, files))}: expected one table or two aligned files")
    texts = [(one.name, split_lines(_decode(one))) for one in contents]
    for name, lines in texts:
        if not any(map(str.strip, lines)):
            raise CorpusError(f"{name} is empty: expected sentence pairs")
    if len(texts) == 1:
        return _table(*texts[0], languages, columns)
    (one, sources), (other, targets) = texts
    if all("\t" in line for _, lines in texts for line in lines if line.strip()):
        raise CorpusError(
            f"{one} and {other}: have a tab in every line, as tables; put them together, as in cat A B > C"
        )
    if columns:
        raise CorpusError(f"--columns: is for one table; {one} and {other} are two files")
    if len(sources) != len(targets):
        raise CorpusError(
            f"{one} has {len(sources)} lines and {other} has {len(targets)}: line n of one must be the translation of "
            "line n of the other"
        )
    pairs = [(" ".join(source.split()), " ".join(target.split())) for source, target in zip(sources, targets)]
    return pairs, f"{len(pairs):,} lines of {one} ({languages[0]}) and {other} ({languages[1]}){_alike(pairs, one)}"


def _table(
    name: str, lines: Sequence[str], languages: Sequence[str], columns: Optional[Sequence[int]]
) -> Tuple[List[Pair], str]:
    rows = [(number, row) for number, row in _rows(name, lines) if any(map(str.strip, row))]
    source, target, header, why = choose_columns(name, [row for _, row in rows], languages, columns)
    pairs = []
    for number, row in rows[header:]:
        if len(row) <= max(source, target):
            raise CorpusError(
                f"{name}, line {number}: has {len(row)} column{'s' * (len(row) != 1)}, no column "
                f"{max(source, target) + 1}: expected a sentence and its translation"
            )
        pairs.append((" ".join(row[source].split()), " ".join(row[target].split())))
    about = f"columns {source + 1} ({languages[0]}) and {target + 1} ({languages[1]}){why}"
    return pairs, f"{len(pairs):,} lines of {name}, {about}{_alike(pairs, name)}"


def _rows(name: str, lines: Sequence[str]) -> Iterator[Tuple[int, List[str]]]:
    """The rows of a table with their line numbers: ``.csv``, or with tabs, with or without quotation marks."""
    separator = "\t"
    if name.removesuffix(".gz").lower().endswith(".csv"):
        separator = max(";,\t", key=lambda one: _evenness(lines[:LOOKED_AT], one))
    elif not _is_quoted(lines):
        yield from ((number, line.split("\t")) for number, line in enumerate(lines, 1))
        return
    before = 0
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator, strict=True)
    try:
        for row in reader:
            if reader.line_num > before + MOST_LINES:
                raise csv.Error(f"it goes on to line {reader.line_num}")
            yield reader.line_num, row
            before = reader.line_num
    except csv.Error as error:
        raise CorpusError(
            f"{name}, line {before + 1}: is no row of a table ({error}); a quotation mark that begins a field must end "
            "it, and one within a field is doubled"
        ) from None


def _evenness(lines: Sequence[str], separator: str) -> int:
    """How many rows of a table have as many columns as its first one, which has several."""
    try:
        widths = [len(row) for row in csv.reader((line + "\n" for line in lines), delimiter=separator) if row]
    except csv.Error:
        return 0
    return widths.count(widths[0]) if widths and widths[0] > 1 else 0


def _is_quoted(lines: Sequence[str]) -> bool:
    """Whether a table with tabs was written by a program that puts fields in quotation marks, as spreadsheets do.

    Such a program doubles the marks within a field. In text that people quote, a field has marks in other places.
    """
    doubled, all_marked = False, True
    for line in lines:
        for field in filter(None, line.rstrip("\r").split("\t")):
            marked = len(field) > 1 and field[0] == field[-1] == '"'
            inside = field[1:-1] if marked else field
            if '"' in inside.replace('""', "") or not marked and '"' in field:
                return False
            doubled, all_marked = doubled or '""' in inside, all_marked and marked
    return doubled or all_marked


def _alike(pairs: Sequence[Pair], name: str) -> str:
    """A warning where most sentences are their own translation.

    Raises:
        CorpusError: all are
    """
    same = sum(source == target for source, target in pairs)
    if same == len(pairs) > 1:
        raise CorpusError(f"{name}: source and target are the same text in all lines; is one of them another file?")
    return f"; WARNING: {same:,} sentences are their own translation" if same > len(pairs) / 2 and same > 1 else ""


def _contents(path: Path, languages: Sequence[str]) -> List[_Content]:
    if not path.is_file():
        raise CorpusError(f"{path}: {'is a folder' if path.is_dir() else 'there is no such file'}; name a file of text")
    try:
        if path.suffix == ".zip":
            return _members(path, languages)
        data = path.read_bytes()
        return [_Content(str(path), gzip.decompress(data) if path.suffix == ".gz" else data)]
    except (EOFError, gzip.BadGzipFile, zlib.error, zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise CorpusError(f"{path}: is damaged, or no {path.suffix} file ({error})") from None
    except OSError as error:
        raise CorpusError(f"{path}: cannot be read: {error.strerror or error}") from None


def _members(path: Path, languages: Sequence[str]) -> List[_Content]:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX")]
        names = [name for name in names if PurePosixPath(name).name[0] not in "_."]
        sides = [[name for name in names if name.endswith("." + language)] for language in languages]
        if len(names) != 1 and not all(len(side) == 1 for side in sides):
            raise CorpusError(
                f"{path}: holds {', '.join(names[:5]) or 'no file'}; expected one table, or one file .{languages[0]} "
                f"and one .{languages[1]}"
            )
        chosen = names if len(names) == 1 else [side[0] for side in sides]
        return [_Content(f"{path}/{name}", archive.read(name)) for name in chosen]


def _decode(content: _Content) -> str:
    data = content.data
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise CorpusError(
            f"{content.name}, line {line}: is not UTF-8; convert the file, as in iconv -f LATIN1 -t UTF-8"
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise CorpusError(f"{content.name}, line {line}: has a NUL character, and is no text; remove it")
    return text
