"""An answer that begins while a translation is searched: lines of JSON (``application/x-ndjson``), each sent when it is
known.
"""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any, Callable, Optional

from starlette.responses import Response

from fairseq_attn_plugin.analysis.web.waiting import Line
from fairseq_attn_plugin.errors import OptionError

__all__ = ["MEDIA_TYPE", "Streamed", "encoded", "streamed"]


MEDIA_TYPE = "application/x-ndjson"
Tell = Callable[[Any], None]


class _Stopped(Exception):
    """Nobody waits for the answer any more."""


def encoded(value: Any) -> bytes:
    """A line of JSON."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode() + b"\n"


async def streamed(line: Line, work: Callable[[Tell], Any]) -> Streamed:
    """An answer of lines. Whatever goes wrong before the first one is raised: it has a status of its own.

    Args:
        line: ``work`` waits in it, and runs in its thread
        work: is given a function that sends a line, and returns the last one. That function raises an exception, which
            ends the work, when the answer's time is over or its client has left.

    Raises:
        Full: as the line does
        Exception: as the work does
    """
    loop, parts, stop = asyncio.get_running_loop(), asyncio.Queue[Optional[bytes]](), threading.Event()

    def tell(value: Any) -> None:
        if stop.is_set():
            raise _Stopped
        part = encoded(value)
        loop.call_soon_threadsafe(parts.put_nowait, part)

    async def run() -> None:
        try:
            await line(lambda: tell(work(tell)))
        finally:
            stop.set()
            parts.put_nowait(None)

    job = asyncio.ensure_future(run())
    try:
        first = await parts.get()
    except asyncio.CancelledError:
        job.cancel()
        raise
    if first is None:
        await job
    return Streamed(first, parts, job)


class Streamed(Response):
    """Sends the parts that a job puts into a queue; None is the last one. The job ends with the answer."""

    media_type = MEDIA_TYPE

    def __init__(self, first: Optional[bytes], parts: asyncio.Queue[Optional[bytes]], job: asyncio.Future[None]):
        super().__init__()
        del self.headers["content-length"]
        self.first, self.parts, self.job = first, parts, job

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
            part = self.first
            while part is not None:
                await send({"type": "http.response.body", "body": part, "more_body": True})
                part = await self.parts.get()
            await asyncio.wait([self.job])
            problem = self.job.exception()
            last = b"" if problem is None else encoded({"error": _said(problem)})
            await send({"type": "http.response.body", "body": last})
            if problem is not None and not isinstance(problem, OptionError):
                raise problem  # for the terminal
        finally:
            self.job.cancel()


def _said(problem: BaseException) -> str:
    if isinstance(problem, OptionError):
        return str(problem)
    return f"the server failed ({type(problem).__name__}); its terminal shows the details"
