"""The line in which requests wait: one translation at a time, and no more waiting than there are places."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Set

__all__ = ["Full", "Line"]

_REMEMBERED = 8  # translations over which the mean time is taken, roughly


class Full(Exception):
    """There is no place in the line; ``seconds``: when there may be one."""

    def __init__(self, seconds: int):
        super().__init__(seconds)
        self.seconds = seconds


class Line:
    """Runs functions in a thread, one after the other, while the event loop goes on.

    Args:
        places: functions that may wait, the one that runs not counted
    """

    def __init__(self, places: int):
        self.places = places
        self._jobs: Set[threading.Event] = set()  # each tells whether its client has given up
        self._mean = 0.0
        self._worker = ThreadPoolExecutor(1, "translation")

    @property
    def waiting(self) -> int:
        """Functions that wait."""
        return max(0, len(self._jobs) - 1)

    async def __call__(self, function: Callable[[], Any]) -> Any:
        """What ``function`` returns. Cancelled while it waits, it does not run; one that runs goes on to its end.

        Raises:
            Full: all places are taken
        """
        if len(self._jobs) > self.places:
            raise Full(max(1, math.ceil(self._mean * len(self._jobs))))
        given_up = threading.Event()
        self._jobs.add(given_up)
        job = asyncio.wrap_future(self._worker.submit(self._run, function, given_up))
        try:
            # shielded: a place is free when the thread has come to it, which bounds what given-up requests hold
            return await asyncio.shield(job)
        except asyncio.CancelledError:
            given_up.set()
            job.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody asks for it any more
            raise

    def _run(self, function: Callable[[], Any], given_up: threading.Event) -> Any:
        start = time.perf_counter()
        try:
            return None if given_up.is_set() else function()
        finally:
            if not given_up.is_set():
                self._mean += (time.perf_counter() - start - self._mean) / _REMEMBERED
            self._jobs.discard(given_up)
