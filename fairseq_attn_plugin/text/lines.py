"""Lines of files that may be anything: compressed, damaged, or with a line longer than the memory."""

import codecs
import contextlib
import csv
import gzip
import io
import json
import lzma
import re
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

LONGEST = 2**26  # characters: a document of ten million words
UNREADABLE = (EOFError, OSError, lzma.LZMAError, zlib.error)  # what opened() and its stream raise
OTHER_SPACE = re.compile(r"[^\S \t]")


def to_utf8(error: UnicodeDecodeError) -> str:
    """How a text that is not UTF-8 becomes UTF-8. Tables of Excel are often UTF-16."""
    utf16 = error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    return f"convert it, as in iconv -f {'UTF-16' if utf16 else 'LATIN1'} -t UTF-8"


@contextlib.contextmanager
def intact(path: Path) -> Iterator[None]:
    """A context that reads a file or an archive; raises ``OptionError`` if it is unreadable, damaged or not UTF-8."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise OptionError(f"{path} is not UTF-8 at byte {error.start}: fetch it again, or {to_utf8(error)}") from None
    except (*UNREADABLE, csv.Error, tarfile.TarError, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.strerror:
            raise OptionError(f"{path}: cannot be read: {error.strerror}") from None
        raise OptionError(f"{path} is truncated or damaged ({error}): remove it and fetch it again") from None


def opened(path: Path) -> Any:
    """A stream of the bytes of a file, decompressed."""
    openers: Dict[str, Any] = {".gz": gzip.open, ".xz": lzma.open}
    return openers.get(path.suffix, open)(path, "rb")


def tokens(line: str) -> List[str]:
    """The tokens of a line whose links or lengths count them, where all programs count alike.

    Raises:
        ValueError: the line has white space at which fairseq splits words, and aligners do not: a no-break space, a
            carriage return within the line
    """
    other = OTHER_SPACE.search(line.rstrip("\r\n"))
    if other is not None:
        raise ValueError(
            f"has the white space U+{ord(other.group()):04X}, which ends a word for fairseq and not for aligners; "
            "replace it by a space before the text is aligned"
        )
    return line.split()


def numbered_lines(path: PathLike, longest: int = LONGEST, name: Optional[str] = None) -> Iterator[Tuple[str, str]]:
    """Yields (``NAME, line 3``, the line without its end) of a text in UTF-8, a line of at most ``longest`` characters
    in memory at a time; files ``.gz`` and ``.xz`` are decompressed. The default of ``name`` is the path.

    Raises:
        OptionError: the file cannot be read, is not UTF-8, or has a longer line
    """
    number, name = 0, name or str(path)
    try:
        # str.splitlines would also split at characters such as U+2028
        with opened(Path(path)) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig", newline="\n") as stream:
            while line := stream.readline(longest + 1):
                number += 1
                if len(line) > longest:
                    raise OptionError(f"{name}, line {number}: is longer than {longest} characters")
                yield f"{name}, line {number}", line.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise OptionError(f"{name}: is not UTF-8 after line {number} ({error.reason}); {to_utf8(error)}") from None
    except UNREADABLE as error:
        raise OptionError(f"{name}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def iter_lines(path: PathLike, name: Optional[str] = None) -> Iterator[str]:
    """The lines of :func:`numbered_lines` alone."""
    return (line for _, line in numbered_lines(path, name=name))


def csv_rows(
    path: PathLike, lines: Iterable[str], first: Sequence[str], most_lines: int = LONGEST
) -> Iterator[Tuple[int, List[str]]]:
    """The rows of a table with semicolons, commas or tabs and fields in quotation marks, with their line numbers.

    Args:
        path: the file, for messages
        lines: of the file
        first: some of them, in which the separator is the one that gives the evenest rows, or a comma where the
            first row has one column
        most_lines: of a row; more are a quotation mark without its end

    Raises:
        OptionError: a quotation mark has no end, or stands within a field
    """
    before = 0
    even = {one: _evenness(first, one) for one in ";,\t"}
    separator = max(even, key=lambda one: even[one]) if any(even.values()) else ","
    csv.field_size_limit(LONGEST)
    reader = csv.reader((line + "\n" for line in lines), delimiter=separator, strict=True)
    try:
        for row in reader:
            if reader.line_num > before + most_lines:
                raise csv.Error(f"it goes on to line {reader.line_num}")
            yield reader.line_num, row
            before = reader.line_num
    except csv.Error as error:
        raise OptionError(
            f"{path}, line {before + 1}: is no row of a table ({error}); a quotation mark that begins a field "
            "must end it, and one within a field is doubled"
        ) from None


def _evenness(lines: Sequence[str], separator: str) -> int:
    """How many rows of a table have as many columns as its first one, which has several."""
    try:
        widths = [len(row) for row in csv.reader((line + "\n" for line in lines), delimiter=separator) if row]
    except csv.Error:
        return 0
    return widths.count(widths[0]) if widths and widths[0] > 1 else 0


def parse_json(text: Union[str, bytes]) -> Any:
    """What JSON of others says. Raises ``ValueError`` also for half of a character, which cannot be written again, and
    for values that are nested too deep."""
    try:
        values = json.loads(text)
        json.dumps(values, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("nested too deep") from None
    return values
