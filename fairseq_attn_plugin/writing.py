"""Files that are there whole or not at all, so that nothing takes an interrupted one for a result."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any, Iterable, Iterator, TextIO, Union

from .errors import OptionError

__all__ = ["PathLike", "check_not_lost", "whole_file", "whole_text"]

PathLike = Union[str, "os.PathLike[str]"]


def check_not_lost(option: str, path: Any, inputs: Iterable[Any]) -> None:
    """Raises ``OptionError`` if what is to be written to ``path`` would take the place of a file that is read."""
    if not path or not os.path.exists(path) or _is_special(Path(path)):
        return
    for file in inputs:
        if file and os.path.exists(file) and os.path.samefile(path, file):
            raise OptionError(f"{option} {path}: is one of the files that are read, and would be lost")


@contextlib.contextmanager
def whole_file(path: Any, failure: str) -> Iterator[Path]:
    """The path to write to; what is there becomes ``path`` when the block ends, and is removed if it fails.

    A device or a pipe (``/dev/null``, ``/dev/stdout``) is written to as it is: a file put in its place would take it
    away from every program on the machine. What a link points to is written, and the link stays.

    Args:
        path: the file
        failure: begins the message where it cannot be written; the reason is added

    Raises:
        OptionError: the file cannot be written
    """
    if _is_special(Path(path)):
        try:
            yield Path(path)
        except OSError as error:
            raise OptionError(f"{failure}: {error.strerror or error}") from None
        return
    path = os.path.realpath(path)
    partial = Path(f"{path}.partial")
    try:
        yield partial
        os.replace(partial, path)
    except OSError as error:
        raise OptionError(f"{failure}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink()


def _is_special(path: Path) -> bool:
    """Whether it is there and neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


@contextlib.contextmanager
def whole_text(path: Any, failure: str) -> Iterator[TextIO]:
    """As :func:`whole_file`, a stream to write UTF-8 text to."""
    with whole_file(path, failure) as partial, open(partial, "w", encoding="utf-8", newline="\n") as stream:
        yield stream
