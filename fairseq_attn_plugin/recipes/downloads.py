"""Downloads and archives. A file appears under its name only when it is complete.

An interrupted download is retried a few times, and continued if the server allows it. The partial file of an earlier
call is never continued, because the file on the server may have changed.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import tarfile
import time
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path
from typing import IO, Any, Dict, Optional, Sequence

from tqdm import tqdm

from ..writing import whole_file
from .commands import Shell
from .errors import CorpusError, OptionError

__all__ = ["fetch", "unpack"]

RETRIES = 5
DELAY = 5.0  # seconds between two tries
TIMEOUT = 30.0  # seconds without an answer
CHUNK = 1 << 16
TRANSIENT = (408, 429, 500, 502, 503, 504)  # HTTP status of a server that may answer later
# some servers refuse the name of a library
AGENT = "fairseq-attn-recipe"


class _Broken(Exception):
    """The transfer was interrupted; a retry may succeed."""


def fetch(shell: Shell, url: str, file: Path, least: int, at_home: str) -> None:
    """Downloads ``url`` to ``file``, unless the file exists.

    Args:
        shell: of the recipe
        url: http, https, ftp or file
        file: target
        least: smallest number of bytes of a complete file
        at_home: content of a folder that replaces the download, for messages

    Raises:
        OptionError: the address cannot be fetched, or gives fewer bytes
    """
    if file.is_file() and not shell.dry_run:
        return
    shell.say(f"fetching {url}")
    shell.step(f"fetch {url} > {file}", _fetch, url, file, least, at_home)


def _fetch(url: str, file: Path, least: int, at_home: str) -> None:
    with whole_file(file, f"{file} cannot be written") as partial:
        try:
            _download(url, partial)
        except (urllib.error.URLError, http.client.HTTPException, _Broken, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise OptionError(
                f"{url} cannot be fetched ({reason}): try again, or fetch it by hand and pass DATA=folder with "
                f"{at_home}"
            ) from None
        size = partial.stat().st_size
        if size < least:
            raise OptionError(
                f"{url} gave {size} bytes, expected at least {least}: truncated or moved; try again, or pass "
                f"DATA=folder with {at_home}"
            )


def _download(url: str, partial: Path) -> None:
    partial.write_bytes(b"")
    version: Optional[str] = None  # of the file on the server
    for attempt in range(RETRIES + 1):
        try:
            start = partial.stat().st_size if version else 0
            headers: Dict[str, str] = {"User-Agent": AGENT}
            if start and version:
                headers.update({"Range": f"bytes={start}-", "If-Range": version})
            with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT) as answer:
                version = _version(answer)
                _receive(answer, partial)
            return
        except urllib.error.HTTPError as error:
            if error.code not in TRANSIENT or attempt == RETRIES:
                raise
        except urllib.error.URLError as error:
            if not isinstance(error.reason, (socket.timeout, ConnectionResetError)) or attempt == RETRIES:
                raise
        except (_Broken, socket.timeout, ConnectionResetError, http.client.IncompleteRead):
            if attempt == RETRIES:
                raise
        time.sleep(DELAY)


def _version(answer: Any) -> Optional[str]:
    """The strong ETag of the file, with which the server continues only the same version."""
    tag = answer.headers.get("ETag", "")
    return tag if tag.startswith('"') else None


def _receive(answer: Any, partial: Path) -> None:
    """Writes the answer to the file, or appends it where the server continues."""
    continues = getattr(answer, "status", None) == 206
    length = answer.headers.get("Content-Length")
    expected = int(length) if length else None
    received = 0
    with open(partial, "ab" if continues else "wb") as stream, tqdm(
        total=expected, desc=partial.name.rpartition(".")[0], unit="B", unit_scale=True, disable=None, leave=False
    ) as bar:
        for chunk in iter(lambda: answer.read(CHUNK), b""):
            stream.write(chunk)
            received += len(chunk)
            bar.update(len(chunk))
    # read() with a size raises no error if the connection ends early
    if expected is not None and received < expected:
        raise _Broken(f"{received} of {expected} bytes came")


def unpack(shell: Shell, archive: Path, members: Sequence[str]) -> None:
    """Takes members out of a ``.tgz`` or ``.zip`` into its folder, by their base names, unless they are there.

    Raises:
        CorpusError: the archive is damaged, or a member is missing
    """
    folder = archive.parent
    if not shell.dry_run and all((folder / Path(member).name).is_file() for member in members):
        return
    names = ", ".join(Path(member).name for member in members)
    shell.step(f"unpack {names} from {archive}", extract_members, archive, folder, members)


def extract_members(archive: Path, folder: Path, members: Sequence[str]) -> None:
    """Members of ``archive`` into ``folder``, each complete or not at all.

    Raises:
        CorpusError: the archive is damaged, or a member is missing
    """
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as opened:
                for member in members:
                    with opened.open(member) as stream:
                        _save(stream, folder / Path(member).name)
        else:
            with tarfile.open(archive, "r:gz") as unzipped:
                for member in members:
                    extracted = unzipped.extractfile(member)
                    if extracted is None:
                        raise KeyError(f"{member} is not a file")
                    with extracted as stream:
                        _save(stream, folder / Path(member).name)
    except KeyError as error:
        raise CorpusError(f"{archive}: {error.args[0]}: not the expected archive") from None
    except (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise CorpusError(f"{archive} is truncated or not an archive ({error}): remove it and fetch it again") from None


def _save(stream: IO[bytes], target: Path) -> None:
    # not whole_file: a damaged archive raises an OSError as well, although the target can be written
    partial = target.with_name(target.name + ".partial")
    try:
        with open(partial, "wb") as copy:
            shutil.copyfileobj(stream, copy)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
