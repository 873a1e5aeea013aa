"""Which requests ``fairseq-attn serve`` answers: those for this machine, not those of pages from elsewhere."""

from __future__ import annotations

import ipaddress
import socket
from typing import Any, List, Optional
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders

from fairseq_attn_plugin.analysis.web.answers import error
from fairseq_attn_plugin.analysis.web.server import is_local

__all__ = ["Gate"]


# the message does not contain the machine's name, since a page from elsewhere could read it
_REFUSAL = (
    "this server does not answer to this host name; use localhost, an address such as 127.0.0.1 or the machine's own "
    "name, or start fairseq-attn serve with --host NAME"
)


class Gate:
    """ASGI middleware that refuses requests by ``Host`` and ``Origin``, and forbids to store the answers.

    Args:
        app: answers what is let through
        host: a name that requests may use, in addition to addresses, ``localhost`` and the machine's own name
    """

    def __init__(self, app: Any, host: str):
        self.app = app
        self.names = [_bare(name) for name in ("localhost", host, socket.gethostname())]
        if not is_local(host):  # only the network uses the full name, and looking it up can be slow
            self.names.append(_bare(socket.getfqdn()))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        headers = Headers(scope=scope)
        asked = headers.get("host", "")
        if not _is_ours(asked, self.names):
            return await error(403, _REFUSAL)(scope, receive, send)
        if _is_foreign(headers.get("origin"), asked):
            return await error(403, "requests from pages of other addresses are refused")(scope, receive, send)

        async def private(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["Cache-Control"] = "no-store"
                headers["X-Content-Type-Options"] = "nosniff"
            await send(message)

        await self.app(scope, receive, private)


def _is_ours(host: str, names: List[str]) -> bool:
    """Whether ``Host`` is an address or one of ``names``.

    A page from elsewhere whose domain resolves to this machine (DNS rebinding) sends its own name.
    """
    try:
        name = _bare(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name in names


def _bare(name: str) -> str:
    """A host name in lower case, without the trailing dot that a full name may have."""
    name = name.lower()
    return name[:-1] if name.endswith(".") else name


def _is_foreign(origin: Optional[str], asked: str) -> bool:
    """Whether a page of another address than ``asked`` sent the request."""
    if not origin:
        return False
    try:
        return urlsplit(origin).netloc != asked
    except ValueError:
        return True
