"""Files of parallel corpora: plain, gzipped, or the SGML of the WMT test sets.

A damaged file raises :class:`~fairseq_attn_plugin.corpora.errors.CorpusError`, whose message names the file and the
remedy. A written file appears under its name only when it is complete.
"""

from __future__ import annotations

import gzip
import html
import re
import sys
import tarfile
import zlib
from pathlib import Path
from typing import Iterable, Iterator, List, Optional, Pattern, Sequence, Tuple

from fairseq_attn_plugin.writing import whole_text

from .errors import CorpusError

__all__ = [
    "SEGMENT",
    "check_folder",
    "find",
    "members_of",
    "note",
    "note_documents",
    "note_fewer",
    "read_lines",
    "read_pair",
    "read_text",
    "split_lines",
    "write_lines",
]

SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)


def note(text: str) -> None:
    """A remark about the corpus, on stderr."""
    print("note: " + text, file=sys.stderr, flush=True)


def note_fewer(report: str, fatal: bool) -> None:
    """Says that a corpus has fewer sentences than the published one; raises ``CorpusError`` if that is ``fatal``."""
    if fatal:
        raise CorpusError(report + ": the download is truncated, remove it and fetch it again")
    note(report)


def note_documents(split: str, counts: Sequence[int]) -> None:
    """A remark on the documents, sentences and words of a split that was written."""
    documents, sentences, words = counts
    print(f"note: {split}: {documents} documents, {sentences} sentences, {words} words", flush=True)


def members_of(archive: Path, name: Pattern[str]) -> Iterator[Tuple[str, bytes]]:
    """Names and contents of the files in a ``.tar.gz`` whose names fit.

    Raises:
        CorpusError: the archive is damaged
    """
    try:
        with tarfile.open(archive, "r:gz") as opened:
            for member in opened:
                stream = opened.extractfile(member) if name.search(member.name) else None
                if stream is not None:
                    yield member.name, stream.read()
    except (EOFError, OSError, tarfile.TarError, zlib.error, gzip.BadGzipFile) as error:
        raise CorpusError(f"{archive} is truncated or not an archive ({error}): remove it and fetch it again") from None


def check_folder(folder: Path) -> None:
    """Raises ``CorpusError`` if the folder of the corpus does not exist."""
    if not folder.is_dir():
        raise CorpusError(f"{folder} is not a folder")


def find(folder: Path, names: str) -> Optional[Path]:
    """The first existing file of the alternatives ``a|b`` in ``folder``, gzipped or plain; None without one."""
    for name in names.split("|"):
        for candidate in (folder / (name + ".gz"), folder / name):
            if candidate.is_file():
                return candidate
    return None


def read_text(path: Path) -> str:
    """The content of a plain or gzipped UTF-8 file, without a byte order mark.

    Raises:
        CorpusError: the file is unreadable, truncated or not UTF-8
    """
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorpusError(f"{path} is truncated or not a gzip file ({error}): fetch it again") from None
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8 at byte {error.start}: fetch it again") from None
    except OSError as error:
        raise CorpusError(f"{path} cannot be read: {error.strerror}") from None


def split_lines(text: str) -> List[str]:
    """Lines of a text. Only a newline ends a line; ``str.splitlines`` also splits at U+2028 inside sentences."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_lines(path: Path) -> List[str]:
    """Sentences of a file with normalised white space.

    Raises:
        CorpusError: as :func:`read_text`; an SGML file without its end tag is truncated
    """
    text = read_text(path)
    if ".sgm" in path.name:
        if "</refset>" not in text.lower() and "</srcset>" not in text.lower():
            raise CorpusError(f"{path} is truncated: its SGML has no end tag; fetch it again")
        lines = [html.unescape(segment) for segment in SEGMENT.findall(text)]
    else:
        lines = split_lines(text)
    return [" ".join(line.split()) for line in lines]


def read_pair(folder: Path, names: Sequence[str], expected: str = "") -> Tuple[List[str], List[str]]:
    """Both sides of a split.

    Args:
        folder: of the corpus
        names: of the two files, each with alternatives ``a|b`` and without ``.gz``
        expected: what the folder must contain, for the message about a missing file

    Raises:
        CorpusError: a file is missing or empty, or the two have different numbers of lines
    """
    found = []
    for name in names:
        path = find(folder, name)
        if path is None:
            first, *others = name.split("|")
            also = " or ".join([first, *others])
            wanted = ": expected " + expected if expected else ""
            raise CorpusError(f"{first}.gz (or {also}) is missing in {folder}{wanted}")
        found.append(path)
    sides = [read_lines(path) for path in found]
    if len(sides[0]) != len(sides[1]):
        raise CorpusError(
            f"{found[0]} has {len(sides[0])} lines and {found[1]} has {len(sides[1])}: the two must be parallel, "
            "one is truncated or of another version"
        )
    if not sides[0]:
        raise CorpusError(f"{found[0]} is empty")
    return sides[0], sides[1]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """One sentence per line.

    Raises:
        OptionError: the file cannot be written
    """
    with whole_text(path, f"{path} cannot be written") as stream:
        stream.writelines(line + "\n" for line in lines)
