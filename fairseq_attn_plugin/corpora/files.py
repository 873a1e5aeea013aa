"""Files of corpora: plain or compressed, members of archives, and the SGML of the WMT test sets.

A damaged file raises ``OptionError``. A written file appears under its name only when it is complete.
"""

import html
import re
import tarfile
from pathlib import Path
from typing import Iterable, Iterator, List, Optional, Pattern, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import intact, opened, to_utf8
from fairseq_attn_plugin.writing import whole_text

SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE | re.DOTALL)


def find(folder: Path, names: str) -> Optional[Path]:
    """The first existing file of the alternatives ``a|b`` in ``folder``, gzipped or plain; None without one."""
    candidates = [folder / (name + suffix) for name in names.split("|") for suffix in (".gz", "")]
    return next(filter(Path.is_file, candidates), None)


def read_text(path: Path) -> str:
    """The content of a UTF-8 file, without a byte order mark; raises ``OptionError`` as :func:`intact` does."""
    with intact(path), opened(path) as stream:
        data = stream.read()
    try:
        return str(data, "utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise OptionError(f"{path}, line {line}: is not UTF-8; fetch it again, or {to_utf8(error)}") from None


def split_lines(text: str) -> List[str]:
    """Lines of a text. Only a newline ends a line; ``str.splitlines`` also splits at U+2028 inside sentences."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def read_lines(path: Path) -> List[str]:
    """Sentences of a file with normalised white space.

    Raises:
        OptionError: as :func:`intact`; an SGML file without its end tag is truncated
    """
    text = read_text(path)
    lines = split_lines(text)
    if ".sgm" in path.name:
        if not re.search("</(refset|srcset)>", text, re.IGNORECASE):
            raise OptionError(f"{path} is truncated: its SGML has no end tag; fetch it again")
        lines = [html.unescape(segment) for segment in SEGMENT.findall(text)]
    return [" ".join(line.split()) for line in lines]


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """One sentence per line; raises ``OptionError`` if the file cannot be written."""
    with whole_text(path, f"{path} cannot be written") as stream:
        stream.writelines(line + "\n" for line in lines)


def members_of(folder: Path, archive: str, name: Pattern[str]) -> Iterator[Tuple[str, bytes]]:
    """Names and contents of the files of a corpus whose names fit, in its ``.tar.gz`` or unpacked below the folder."""
    path = folder / archive
    if not path.is_file():
        for file in folder.rglob("*.txt"):
            if name.search(file.as_posix()):
                yield file.as_posix(), file.read_bytes()
        return
    with intact(path), tarfile.open(path, "r:gz") as members:
        for member in members:
            stream = members.extractfile(member) if name.search(member.name) else None
            if stream is not None:
                yield member.name, stream.read()
