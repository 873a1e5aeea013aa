"""Files of corpora: plain, gzipped, or the SGML of the WMT test sets.

A damaged file raises :class:`CorpusError`, whose message names the file and the remedy. A written file appears under
its name only when it is complete.
"""

from __future__ import annotations

import gzip
import html
import re
import tarfile
import zlib
from pathlib import Path
from typing import Iterable, Iterator, List, Optional, Pattern, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_text

__all__ = ["SEGMENT", "CorpusError", "find", "members_of", "read_lines", "read_text", "split_lines", "write_lines"]

SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)


class CorpusError(OptionError):
    """The corpus is missing, damaged or not parallel. The message is the whole report."""


def find(folder: Path, names: str) -> Optional[Path]:
    """The first existing file of the alternatives ``a|b`` in ``folder``, gzipped or plain; None without one."""
    candidates = [folder / (name + suffix) for name in names.split("|") for suffix in (".gz", "")]
    return next(filter(Path.is_file, candidates), None)


def read_text(path: Path) -> str:
    """The content of a plain or gzipped UTF-8 file, without a byte order mark.

    Raises:
        CorpusError: the file is unreadable, truncated or not UTF-8
    """
    try:
        data = path.read_bytes()
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
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
    lines = split_lines(text)
    if ".sgm" in path.name:
        if "</refset>" not in text.lower() and "</srcset>" not in text.lower():
            raise CorpusError(f"{path} is truncated: its SGML has no end tag; fetch it again")
        lines = [html.unescape(segment) for segment in SEGMENT.findall(text)]
    return [" ".join(line.split()) for line in lines]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """One sentence per line; raises ``OptionError`` if the file cannot be written."""
    with whole_text(path, f"{path} cannot be written") as stream:
        stream.writelines(line + "\n" for line in lines)


def members_of(archive: Path, name: Pattern[str]) -> Iterator[Tuple[str, bytes]]:
    """Names and contents of the files in a ``.tar.gz`` whose names fit; raises ``CorpusError`` if it is damaged."""
    try:
        with tarfile.open(archive, "r:gz") as opened:
            for member in opened:
                stream = opened.extractfile(member) if name.search(member.name) else None
                if stream is not None:
                    yield member.name, stream.read()
    except (EOFError, OSError, tarfile.TarError, zlib.error) as error:
        raise CorpusError(f"{archive} is truncated or not an archive ({error}): remove it and fetch it again") from None
