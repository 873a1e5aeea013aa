"""Opens the socket of ``fairseq-attn serve``, and recognises local addresses."""

from __future__ import annotations

import errno
import ipaddress
import socket

from fairseq_attn_plugin.errors import OptionError

__all__ = ["QUEUE", "TIMEOUT", "bind", "is_local"]


QUEUE = 64  # requests that may wait, by default
TIMEOUT = 30.0  # seconds for a request, by default


def is_local(host: str) -> bool:
    """Whether only programs on this machine can reach a server at this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens there, at any free port if ``port`` is 0. Raises ``OptionError`` if none can be opened."""
    if not 0 <= port <= 65535:
        raise OptionError(f"--port {port}: must be from 0 (any free port) to 65535")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    except (socket.gaierror, UnicodeError):
        raise OptionError(f"--host {host}: must be an address, or a name that this machine can resolve") from None
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            reason = "is taken by another program; choose another, or 0 for any free port"
        elif error.errno in (errno.EACCES, errno.EPERM):
            reason = "needs administrator rights; choose one above 1023"
        else:
            raise OptionError(f"--host {host}: cannot be used: {error.strerror}") from None
        raise OptionError(f"--port {port}: {reason}") from None
