"""The tools of this environment, such as subword-nmt, with their output in logs; and locks of folders."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Dict, Iterator

import portalocker

from fairseq_attn_plugin.errors import OptionError

__all__ = ["LOG_LINES", "PACKAGE", "environment", "locked", "run_quietly"]

PACKAGE = Path(__file__).resolve().parents[1]
LOG_LINES = 5  # last lines of the log of a failed command, shown to the user


def environment() -> Dict[str, str]:
    """The environment of commands: the tools and the modules of this Python come first."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    found = {**os.environ, "PATH": path}
    folder = str(PACKAGE.parent)
    # site-packages must not come before the standard library; a checkout may not be installed
    if folder not in (sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        found["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, os.environ.get("PYTHONPATH")]))
    return found


def run_quietly(log: Path, *command: object, lock: int = -1) -> None:
    """Runs a command with its output in a log, whose end is shown only if the command fails.

    Args:
        log: the file
        command: its words; ``str`` converts them
        lock: descriptor of a lock that the command holds together with this process; -1: none

    Raises:
        OptionError: the command failed, or is not installed
    """
    words = [str(word) for word in command]
    inherited = () if lock < 0 else (lock,)
    sys.stdout.flush()
    try:
        with open(log, "wb") as stream:
            done = subprocess.run(words, env=environment(), stdout=stream, stderr=stream, pass_fds=inherited)
    except FileNotFoundError:
        raise OptionError(
            f"{words[0]} is not installed in {sys.prefix}: install this package with its dependencies"
        ) from None
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
        sys.stderr.write("".join(lines[-LOG_LINES:]))
        raise OptionError(f"{words[0]} failed, see {log}")


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[int]:
    """Holds the lock of the file ``path``, whose folder exists, during the block.

    The lock ends with its process and with the processes that inherit its descriptor, which the context gives.

    Raises:
        OptionError: another process has the lock (without ``wait``), or the file system has no locks
    """
    flags = portalocker.LockFlags.EXCLUSIVE
    with open(path, "a", encoding="utf-8") as stream:
        try:
            portalocker.lock(stream, flags if wait else flags | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.exceptions.AlreadyLocked:
            raise OptionError(f"{path}: another process works there; wait, or name another folder") from None
        except portalocker.exceptions.LockException as error:
            raise OptionError(f"{path} cannot be locked ({error}): choose OUT on another file system") from None
        yield stream.fileno()
