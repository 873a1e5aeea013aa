"""Writes files completely or not at all, so that an interrupted file is never taken for a result."""

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any, BinaryIO, Dict, Iterable, Iterator, Optional, TextIO, Union

import portalocker

from fairseq_attn_plugin.errors import OptionError

_LABELLED = re.compile(r"^(?:[^=/]+=)?(.+)$", re.DOTALL)

PathLike = Union[str, "os.PathLike[str]"]


def check_output(option: str, path: Any, inputs: Iterable[Any], checkpoint: bool = False) -> None:
    """Raises ``OptionError`` before the work if the output ``path`` cannot be written, is one of the files that are
    read, or is a checkpoint and the output is not.

    Inputs may have the form ``LABEL=FILE``.
    """
    if not path or _is_special(Path(path)):
        return
    folder, exists = os.path.dirname(path) or ".", os.path.exists(path)
    target = os.path.dirname(os.path.realpath(path))  # a link stays, and its target is written
    reason = ""
    if os.path.isdir(path):
        reason = "it is a folder; name a file"
    elif not os.path.isdir(folder):
        reason = f"there is no folder {folder}"
    elif not os.access(target, os.W_OK | os.X_OK) or (exists and not os.access(path, os.W_OK)):
        reason = "permission denied"
    if reason:
        raise OptionError(f"{option} {path}: cannot be written: {reason}")
    if not exists:
        return
    if os.fspath(path).endswith(".pt") and not checkpoint:
        raise OptionError(f"{option} {path}: is a checkpoint, and would be lost")
    for file in filter(None, inputs):
        if not os.path.exists(file):
            file = _LABELLED.sub(r"\1", os.fspath(file))
        if os.path.exists(file) and os.path.samefile(path, file):
            raise OptionError(f"{option} {path}: is one of the files that are read, and would be lost")


@contextlib.contextmanager
def whole_file(path: Any, failure: str, follow: bool = True) -> Iterator[Path]:
    """A context that gives a temporary path; the file there becomes ``path`` at the end, or is removed on failure.

    A device or a pipe (``/dev/null``, ``/dev/stdout``) is written directly: replacing it would remove it for every
    program on the machine.

    Args:
        path: the file
        failure: start of the error message, to which the reason is added
        follow: whether a symbolic link stays, and its target is written; otherwise the file takes its place

    Raises:
        OptionError: the file cannot be written, or another process is writing it
    """
    if _is_special(Path(path)):
        try:
            yield Path(path)
        except OSError as error:
            raise OptionError(f"{failure}: {error.strerror or error}") from None
        return
    path = os.path.realpath(path) if follow else path
    partial = Path(f"{path}.partial")
    try:
        with open_alone(partial, failure):
            try:
                yield partial
                os.replace(partial, path)
            except BaseException:
                with contextlib.suppress(OSError):
                    partial.unlink()
                raise
    except (OSError, RuntimeError) as error:
        reason: Optional[BaseException] = error  # torch reports what the system says as a fault in its format
        while reason is not None and not isinstance(reason, OSError):
            reason = reason.__context__
        if reason is None:
            raise
        raise OptionError(f"{failure}: {reason.strerror or reason}") from None


def open_alone(path: Path, failure: str) -> BinaryIO:
    """Opens an unfinished file to read and append, locked, and not one that another process has just finished.

    Args:
        path: of the file; the lock ends with the stream
        failure: beginning of the message

    Raises:
        OptionError: another process has the lock
    """
    while True:
        stream = open(path, "a+b")  # noqa: SIM115
        try:
            portalocker.lock(stream, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.AlreadyLocked:
            stream.close()
            raise OptionError(f"{failure}: another process is writing it") from None
        except portalocker.LockException:  # some network file systems have no locks; writing works without
            pass
        if path.exists() and os.path.samestat(os.fstat(stream.fileno()), os.stat(path)):  # it was not renamed
            return stream
        stream.close()


def _is_special(path: Path) -> bool:
    """Whether the path exists and is neither a regular file nor a folder."""
    # os.path, since the methods of Path raise OSError for a name that is too long
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


@contextlib.contextmanager
def whole_text(path: Any, failure: str) -> Iterator[TextIO]:
    """A context that gives a stream for UTF-8 text; see :func:`whole_file`.

    What UTF-8 cannot encode, such as a file name of other bytes, is written as JSON escapes it: ``\\udcff``.
    """
    with whole_file(path, failure) as partial, open(partial, "w", -1, "utf-8", "backslashreplace", "\n") as stream:
        yield stream


def write_json(option: str, path: Any, content: Any) -> None:
    """Writes the JSON file of an option; raises ``OptionError`` if it cannot be written."""
    with whole_text(path, f"{option} {path}: cannot be written") as stream:
        stream.write(json.dumps(content, ensure_ascii=False, indent=1) + "\n")


def read_json(path: Path) -> Dict[str, Any]:
    """The object in a JSON file; empty if there is none or it is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None  # no pipe, no device
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def make_folder(option: str, path: Any) -> None:
    """Makes the folder of an option, unless it is there; raises ``OptionError`` if it cannot be made."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise OptionError(f"{option} {path}: cannot be created: {error.strerror or error}") from None
