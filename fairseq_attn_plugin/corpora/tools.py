"""The tools of this environment, such as subword-nmt, with their output in logs; folders that are whole or absent."""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, Mapping

import portalocker

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import read_json, write_json

STAMP = "prepared.json"

PACKAGE = Path(__file__).resolve().parents[1]


def environment() -> Dict[str, str]:
    """The environment of commands: the tools and the modules of this Python come first."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = {**os.environ, "PATH": path}
    folder = str(PACKAGE.parent)
    # site-packages must not come before the standard library; a checkout may not be installed
    if folder not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    return found


def keep(lines: Iterable[str], log: Path) -> None:
    """Writes lines as they come to a log."""
    with open(log, "w", buffering=1, encoding="utf-8") as stream:  # line by line: somebody may follow it
        stream.writelines(lines)


def run_quietly(
    log: Path, *command: object, lock: int = -1, read: Callable[[Iterable[str], Path], None] = keep
) -> None:
    """Runs a command with its output in a log, whose end is shown only if the command fails.

    Args:
        log: the file
        command: its words; ``str`` converts them
        lock: descriptor of a lock that the command holds together with this process; -1: none
        read: writes the lines of the output to the log

    Raises:
        OptionError: the command failed or is not installed, or the log cannot be written
    """
    words = [str(word) for word in command]
    sys.stdout.flush()
    try:
        process = subprocess.Popen(
            words,
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=() if lock < 0 else (lock,),
            encoding="utf-8",
            errors="replace",
        )
    except FileNotFoundError:
        raise OptionError(
            f"{words[0]} is not installed in {sys.prefix}: install this package with its dependencies"
        ) from None
    with process:
        try:
            read(process.stdout or (), log)
        except SystemExit:
            process.terminate()
            raise
        except BrokenPipeError:  # of the reader of this program's output
            raise
        except OSError as error:
            process.terminate()
            rest = "make room, and the same command does what is left"
            raise OptionError(f"{log}: cannot be written: {error.strerror}; {rest}") from None
    if process.returncode != 0:
        sys.stderr.write("".join(log.read_text(encoding="utf-8").splitlines(keepends=True)[-5:]))
        raise OptionError(f"{words[0]} failed, see {log}; the same command does what is left")


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[int]:
    """Holds the lock of the file ``path``, whose folder exists, during the block.

    The lock ends with its process and with the processes that inherit its descriptor, which the context gives.

    Raises:
        OptionError: another process has the lock (without ``wait``), or the file system has no locks
    """
    try:
        path.touch()
    except OSError as error:
        raise OptionError(f"{path}: cannot be written: {error.strerror}; choose another folder") from None
    with open(path, "a", encoding="utf-8") as stream:
        try:
            portalocker.lock(stream, portalocker.LockFlags.EXCLUSIVE | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.exceptions.AlreadyLocked:
            if not wait:
                raise OptionError(f"{path}: another process works there; wait, or name another folder") from None
            print(f"{path}: waiting for another process, which works there", flush=True)
            portalocker.lock(stream, portalocker.LockFlags.EXCLUSIVE)
        except portalocker.exceptions.LockException as error:
            raise OptionError(f"{path} cannot be locked ({error}): choose OUT on another file system") from None
        yield stream.fileno()


def stamp_of(folder: Path) -> Dict[str, Any]:
    """What a folder was prepared with; empty if there is no such folder, or nothing in it.

    Raises:
        OptionError: the folder holds something else
    """
    found = read_json(folder / STAMP)
    if not found and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"--out: {folder} exists, and fairseq-attn has not prepared it; name another folder")
    return found


@contextlib.contextmanager
def whole_folder(folder: Path, stamp: Mapping[str, Any]) -> Iterator[Path]:
    """A context that gives a folder with an empty ``text/``, which is ``folder`` at the end, with its stamp.

    Raises:
        OptionError: a file cannot be written or read
    """
    partial = folder.with_name(folder.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        (partial / "text").mkdir(parents=True)
        yield partial
        write_json("--out", partial / STAMP, stamp)
        if folder.is_dir():
            folder.rmdir()
        partial.rename(folder)
    except BrokenPipeError:  # of the reader of this program's output
        raise
    except OSError as error:
        raise OptionError(f"{folder}: cannot be prepared: {error}") from None
