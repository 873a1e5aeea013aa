"""Bounds of a request: the size of its body, and the time until it is answered."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any, Optional

from starlette.datastructures import Headers

from fairseq_attn_plugin.analysis.inference.translation import MOST_CHARACTERS
from fairseq_attn_plugin.analysis.web.answers import error

__all__ = ["MOST_BYTES", "Bounds"]


# JSON may write a character as \ud83d\ude00; the rest is for the other members
MOST_BYTES = 12 * MOST_CHARACTERS + 4096
_LINGER = 5.0  # seconds in which the rest of a body that is too long is read and dropped


class Bounds:
    """ASGI middleware that reads the body before the application runs, and ends the application with its request.

    The application is cancelled if the body and the answer together take longer than ``seconds`` or the client leaves.
    Answers: 413 for a body of more than ``most`` bytes, which is never held; 408 for one that does not arrive in time;
    504 for an answer that does not.
    """

    def __init__(self, app: Any, seconds: float, most: int = MOST_BYTES):
        self.app, self.seconds, self.most = app, seconds, most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        end = time.monotonic() + self.seconds
        try:
            body = await asyncio.wait_for(self._read(scope, receive), self.seconds)
        except _TooLong:
            return await self._refuse_body(receive, send)
        except asyncio.TimeoutError:
            late = error(408, f"the body did not arrive within {self.seconds:g} seconds", {"Connection": "close"})
            return await late(scope, receive, send)
        if body is not None:
            await self._answer(scope, receive, send, body, end)

    async def _read(self, scope: Any, receive: Any) -> Optional[bytes]:
        """The body; None if the client leaves."""
        declared = Headers(scope=scope).get("content-length", "")
        if declared.isdecimal() and int(declared[:20]) > self.most:
            raise _TooLong
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self.most:
                raise _TooLong
            if not message.get("more_body"):
                return body

    async def _refuse_body(self, receive: Any, send: Any) -> None:
        answer = error(413, f"the request is too long: at most {self.most} bytes are read", {"Connection": "close"})
        await send({"type": "http.response.start", "status": 413, "headers": answer.raw_headers})
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})

        async def drop() -> None:
            while (await receive()).get("more_body"):
                pass

        # a client that is still sending when the connection is closed would not see the answer
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(drop(), min(_LINGER, self.seconds))
        await send({"type": "http.response.body", "body": b""})

    async def _answer(self, scope: Any, receive: Any, send: Any, body: bytes, end: float) -> None:
        left, started = asyncio.ensure_future(receive()), False  # what comes after the body is that the client leaves
        parts = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return parts.pop() if parts else await asyncio.shield(left)

        async def noted(message: Any) -> None:
            nonlocal started
            started = True
            await send(message)

        work = asyncio.ensure_future(self.app(scope, replay, noted))
        try:
            await asyncio.wait(
                [work, left], timeout=max(0.0, end - time.monotonic()), return_when=asyncio.FIRST_COMPLETED
            )
            late = not work.done() and not left.done()
            if work.done():
                work.result()  # raises what the application raised
        finally:
            for task in (work, left):
                task.cancel()
            await asyncio.gather(work, left, return_exceptions=True)
        if late and not started:
            reason = f"there was no translation within {self.seconds:g} seconds (--timeout)"
            await error(504, reason)(scope, receive, send)


class _TooLong(Exception):
    """The body is too long."""
