"""Locks of folders that several runs share. A lock ends with its process and with the processes that inherit it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Iterator, Optional

import portalocker

from .errors import OptionError

__all__ = ["locked"]


@contextlib.contextmanager
def locked(path: Path, wait: bool = True) -> Iterator[Optional[int]]:
    """Holds the lock of the file ``path`` during the block.

    Args:
        path: of the lock; its folder is made
        wait: whether to wait for another process; otherwise the block runs at once

    Yields:
        the descriptor of the lock, which child processes may inherit to hold it, too; None if it is not held (without
        ``wait`` only)

    Raises:
        OptionError: the file system has no locks
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = portalocker.LockFlags.EXCLUSIVE
    with open(path, "a", encoding="utf-8") as stream:
        try:
            portalocker.lock(stream, flags if wait else flags | portalocker.LockFlags.NON_BLOCKING)
        except portalocker.exceptions.AlreadyLocked:
            yield None
            return
        except portalocker.exceptions.LockException as error:
            raise OptionError(f"{path} cannot be locked ({error}): choose OUT on another file system") from None
        # closing releases it, once the processes that inherited it have ended; unlocking would release it for them, too
        yield stream.fileno()
