"""Downloads with checksums, by pooch, and members of archives. A file has its name only when it is complete."""

import hashlib
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import intact

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
    """The file, downloaded to the folder; one that is there with the known checksum is not fetched again. ``expected``:
    content of a folder that replaces the download, for messages.

    Raises:
        OptionError: the address cannot be fetched, or gives another file
    """
    import pooch
    from requests import RequestException

    url, name, known = download.url, download.name, download.known
    library = pooch.create(folder, url.rpartition("/")[0] + "/", registry={name: known or None}, retry_if_failed=TRIES)
    pooch.get_logger().setLevel("WARNING")
    if not (folder / name).is_file():
        print(f"fetching {url}", flush=True)
    try:
        loader = pooch.HTTPDownloader(progressbar=sys.stderr.isatty(), headers=HEADERS, timeout=TIMEOUT)
        path = Path(library.fetch(name, downloader=loader))
        size = path.stat().st_size
        if size >= download.least:
            return path
        path.unlink()
        reason = f"gives {size} bytes, at least {download.least} are expected: truncated or moved"
    except (RequestException, OSError, ValueError) as error:
        reason = f"cannot be fetched ({error})"
        if isinstance(error, ValueError) and "hash" in str(error):
            reason = f"gives a file with another checksum than {known}: truncated, or changed on the server"
    raise OptionError(f"{url}: {reason}; try again, or fetch it by hand and give --data FOLDER with {expected}")


def unpack(archive: Path, folder: Path, members: Sequence[str]) -> None:
    """Writes members of a ``.zip`` or ``.tgz`` into the folder under their base names, unless they are there.

    No other path of the archive is used, so that an archive writes nothing outside the folder.

    Raises:
        OptionError: the archive is damaged, or a member is missing
    """
    missing = [member for member in members if not (folder / Path(member).name).is_file()]
    if not missing:
        return
    partial = folder / f"{archive.name}.{os.getpid()}.partial"  # other preparations may share the folder
    zipped = archive.suffix == ".zip"
    open_archive: Any = zipfile.ZipFile if zipped else tarfile.open
    try:
        with intact(archive), open_archive(archive) as opened:
            for member in missing:
                with (opened.open if zipped else opened.extractfile)(member) as stream, open(partial, "wb") as copy:
                    shutil.copyfileobj(stream, copy)
                partial.replace(folder / Path(member).name)
    except KeyError as error:
        raise OptionError(f"{archive}: {error.args[0]}: not the expected archive") from None
    finally:
        partial.unlink(missing_ok=True)
