"""Downloads with checksums, by pooch, and members of archives. A file has its name only when it is complete."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import IO, NamedTuple, Sequence

from .errors import CorpusError, OptionError

__all__ = ["Download", "checksum", "fetch", "unpack"]

TRIES, TIMEOUT = 5, 30.0  # seconds without an answer
# some servers refuse the name of a library
HEADERS = {"User-Agent": "fairseq-attn-prepare"}


class Download(NamedTuple):
    """A file of a corpus on its server.

    Attributes:
        url: its address
        known: its SHA-256, or ``md5:`` and its MD5; empty if none is known
        least: smallest number of bytes of a complete file
        members: of an archive, that are unpacked
    """

    url: str
    known: str = ""
    least: int = 1
    members: Sequence[str] = ()

    @property
    def name(self) -> str:
        return self.url.rpartition("/")[2]


def checksum(path: Path) -> str:
    """The SHA-256 of a file."""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fetch(download: Download, folder: Path, expected: str) -> Path:
    """The downloaded file; a file that is there with the known checksum is not fetched again.

    Args:
        download: the file
        folder: to write it to
        expected: content of a folder that replaces the download, for messages

    Raises:
        OptionError: the address cannot be fetched, or gives another file
    """
    import pooch
    from requests import RequestException

    base, _, name = download.url.rpartition("/")
    library = pooch.create(folder, base + "/", registry={name: download.known or None}, retry_if_failed=TRIES)
    pooch.get_logger().setLevel("WARNING")
    remedy = f"try again, or fetch it by hand and give --data FOLDER with {expected}"
    if not (folder / name).is_file():
        print(f"fetching {download.url}", flush=True)
    try:
        loader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), headers=HEADERS, timeout=TIMEOUT)
        path = Path(library.fetch(name, downloader=loader))
    except ValueError as error:
        if "hash" not in str(error):
            raise OptionError(f"{download.url}: cannot be fetched ({error}); {remedy}") from None
        raise OptionError(
            f"{download.url}: gives a file with another checksum than {download.known}: truncated, or changed on the "
            f"server; {remedy}"
        ) from None
    except (RequestException, OSError) as error:
        raise OptionError(f"{download.url}: cannot be fetched ({error}); {remedy}") from None
    size = path.stat().st_size
    if size < download.least:
        path.unlink()
        raise OptionError(
            f"{download.url}: gives {size} bytes, at least {download.least} are expected: truncated or moved; {remedy}"
        )
    return path


def unpack(archive: Path, folder: Path, members: Sequence[str]) -> None:
    """Writes members of a ``.zip`` or ``.tgz`` into the folder under their base names, unless they are there.

    No other path of the archive is used, so that an archive writes nothing outside the folder.

    Raises:
        CorpusError: the archive is damaged, or a member is missing
    """
    missing = [member for member in members if not (folder / Path(member).name).is_file()]
    if not missing:
        return
    try:
        if archive.suffix == ".zip":
            with zipfile.ZipFile(archive) as opened:
                for member in missing:
                    with opened.open(member) as stream:
                        _save(stream, folder / Path(member).name)
        else:
            with tarfile.open(archive, "r:gz") as unzipped:
                for member in missing:
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
