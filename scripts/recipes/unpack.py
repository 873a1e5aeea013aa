#!/usr/bin/env python3
"""Takes members out of a .tgz or .zip into a folder, by their base names, each complete or not at all."""

import os
import shutil
import sys
import tarfile
import zipfile
import zlib
from pathlib import Path
from typing import List


def unpack(archive: Path, folder: Path, members: List[str]) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            for member in members:
                with opened.open(member) as stream:
                    save(stream, folder / Path(member).name)
    else:
        with tarfile.open(archive, "r:gz") as opened:
            for member in members:
                extracted = opened.extractfile(member)
                if extracted is None:
                    raise KeyError("%s is no file" % member)
                with extracted as stream:
                    save(stream, folder / Path(member).name)


def save(stream, target: Path) -> None:
    partial = target.with_name(target.name + ".partial")
    with open(partial, "wb") as copy:
        shutil.copyfileobj(stream, copy)
    os.replace(partial, target)


def main(arguments: List[str]) -> int:
    archive = Path(arguments[0])
    try:
        unpack(archive, Path(arguments[1]), arguments[2:])
    except KeyError as error:
        print("error: %s: %s: not the archive that was expected" % (archive, error.args[0]), file=sys.stderr)
        return 1
    except (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        print(
            "error: %s is truncated or no archive (%s): remove it and fetch it again" % (archive, error),
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
