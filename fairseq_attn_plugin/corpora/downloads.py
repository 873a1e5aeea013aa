"""Downloads with checksums, by pooch, and members of archives. A file has its name only when it is complete."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from fairseq_attn_plugin.errors import OptionError

from .files import CorpusError

__all__ = ["Download", "checksum", "fetch", "unpack"]

TRIES, TIMEOUT = 5, 30.0  # seconds without an answer
HEADERS = {"User-Agent": "fairseq-attn-prepare"}  # some servers refuse the name of a library


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

    url, name = download.url, download.name
    library = pooch.create(
        folder, url.rpartition("/")[0] + "/", registry={name: download.known or None}, retry_if_failed=TRIES
    )
    pooch.get_logger().setLevel("WARNING")
    remedy = f"try again, or fetch it by hand and give --data FOLDER with {expected}"
    if not (folder / name).is_file():
        print(f"fetching {url}", flush=True)
    try:
        loader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), headers=HEADERS, timeout=TIMEOUT)
        path = Path(library.fetch(name, downloader=loader))
    except (RequestException, OSError, ValueError) as error:
        if isinstance(error, ValueError) and "hash" in str(error):
            raise OptionError(
                f"{url}: gives a file with another checksum than {download.known}: truncated, or changed on the "
                f"server; {remedy}"
            ) from None
        raise OptionError(f"{url}: cannot be fetched ({error}); {remedy}") from None
    size = path.stat().st_size
    if size < download.least:
        path.unlink()
        raise OptionError(
            f"{url}: gives {size} bytes, at least {download.least} are expected: truncated or moved; {remedy}"
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
    partial = folder / f"{archive.name}.{os.getpid()}.partial"  # other preparations may share the folder
    try:
        open_archive: Any = zipfile.ZipFile if archive.suffix == ".zip" else tarfile.open
        with open_archive(archive) as opened:
            read = opened.open if archive.suffix == ".zip" else opened.extractfile
            for member in missing:
                with read(member) as stream, open(partial, "wb") as copy:
                    shutil.copyfileobj(stream, copy)
                partial.replace(folder / Path(member).name)
    except KeyError as error:
        raise CorpusError(f"{archive}: {error.args[0]}: not the expected archive") from None
    except (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise CorpusError(f"{archive} is truncated or not an archive ({error}): remove it and fetch it again") from None
    finally:
        partial.unlink(missing_ok=True)
