"""Connections of ``fairseq-attn serve``: how many there are, and how long one may take to ask."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Optional

from uvicorn.protocols.http.h11_impl import H11Protocol

__all__ = ["MOST", "SECONDS", "Connection"]

MOST = 256  # connections at a time: fewer than the files that a process may have open
SECONDS = 10.0  # until the headers of a request must be complete


class Connection(H11Protocol):
    """An HTTP connection that is closed if its request does not arrive.

    Where there are :data:`MOST` connections, a new one takes the place of the one that has waited for its request for
    the longest time.
    """

    since = 0.0
    late: Optional[asyncio.TimerHandle] = None

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def waits(self) -> bool:
        """Whether the client has not sent all of its request."""
        return not self.busy or self.cycle.more_body

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since = time.monotonic()
        self._watch()
        there = [one for one in self.connections if isinstance(one, Connection) and not one.transport.is_closing()]
        if len(there) > MOST:
            waiting = [one for one in there if one is not self and one.waits]
            min(waiting, key=lambda one: one.since, default=self).transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Optional[Exception]) -> None:
        super().connection_lost(exc)
        if self.late is not None:
            self.late.cancel()

    def _watch(self) -> None:
        """Begins to wait for headers, or ends it when they are complete."""
        if self.busy and self.late is not None:
            self.late.cancel()
            self.late = None
        elif not self.busy and self.late is None:
            self.late = self.loop.call_later(SECONDS, self.transport.abort)
