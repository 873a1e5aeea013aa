"""The server of ``fairseq-attn serve``: the page at ``/``, and addresses that answer in JSON.

``/translate`` translates a sentence, ``/health`` says that the server runs. It is for one reader, on this machine: it
answers requests to this machine that no page from elsewhere has sent, reads bodies of a bounded length that arrive in
bounded time, and translates one sentence at a time. uvicorn bounds the connections and the headers of a request.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import json
import re
import socket
from typing import Any, Awaitable, Callable, Dict, List, Optional, Sequence
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from fairseq_attn_plugin.analysis.inference.translation import MOST_CHARACTERS, Translation
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.records.record import DIGITS
from fairseq_attn_plugin.analysis.web.explore import finite, side
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.reading import SEVERAL, has_several_sentences

# of a body: JSON may write a character as \ud83d\ude00; the rest is for the other members
MOST_BYTES = 12 * MOST_CHARACTERS + 4096
MOST_SECONDS = 10.0  # until a body has arrived
MOST_CONNECTIONS = 64  # uvicorn answers a further one with 503
# the message does not contain the machine's name, since a page from elsewhere could read it
_WRONG_HOST = (
    "this server does not answer to this host name; use localhost, an address such as 127.0.0.1 or the machine's own "
    "name, or start fairseq-attn serve with --host NAME"
)
_QUESTION = 'send {"text": "a sentence"}, with "nbest" for several translations: '
_KINDS = {"text": (str, "a text"), "nbest": (int, "a number"), "prefix": (str, "a text"), "model": (str, "a text")}


# --- the socket -------------------------------------------------------------------------------------------------------


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


def run(app: Starlette, listener: socket.socket) -> None:
    """Answers requests at a socket until Ctrl+C."""
    config = uvicorn.Config(
        app, log_level="warning", http="h11", ws="none", limit_concurrency=MOST_CONNECTIONS, timeout_graceful_shutdown=1
    )
    uvicorn.Server(config).run(sockets=[listener])


# --- what is answered to whom -----------------------------------------------------------------------------------------


def application(
    translators: Any,
    host: str = "127.0.0.1",
    nbest: int = 1,
    notes: Optional[List[str]] = None,
    examples: Sequence[str] = (),
) -> Starlette:
    """The application for one or several translators.

    Args:
        translators: {label: translator} of one direction, or one translator
        host: a host name that requests may use, in addition to addresses, ``localhost`` and the machine's own name
        nbest: number of translations, unless a request gives another
        notes: sentences that the page shows to its reader
        examples: sentences that the page offers
    """
    models: Dict[str, Any] = translators if isinstance(translators, dict) else {translators.path: translators}
    first = next(iter(models.values()))
    page = _page(models, notes or [], examples)
    names = {_bare(name) for name in ("localhost", host, socket.gethostname())}
    if not is_local(host):  # only the network uses the full name, and looking it up can be slow
        names.add(_bare(socket.getfqdn()))
    one_at_a_time = asyncio.Lock()

    async def index(request: Request) -> Response:
        return HTMLResponse(page)

    async def health(request: Request) -> Response:
        known = {"models": list(models), "languages": list(first.languages)}
        return JSONResponse({"status": "ok", "checkpoint": first.path, **known})

    async def translate(request: Request) -> Response:
        body = b""
        try:
            async with asyncio.timeout(MOST_SECONDS):
                async for part in request.stream():
                    body += part
                    if len(body) > MOST_BYTES:
                        return _error(413, f"the request is too long: at most {MOST_BYTES} bytes are read")
        except TimeoutError:
            return _error(408, f"the request did not arrive within {MOST_SECONDS:g} seconds")
        try:
            asked = _question(body)
        except ValueError as error:
            return _error(422, f"{_QUESTION}{error}")
        model = asked.get("model")
        if model is not None and model not in models:
            return _error(400, f"model {model!r}: must be one of {', '.join(models)}")
        translator = first if model is None else models[model]

        def answer() -> Response:
            text = asked["text"]
            try:
                found = translator(text, asked.get("nbest", nbest), asked.get("prefix", ""))
            except OptionError as error:
                return _error(400, str(error))
            remarks = [SEVERAL] if has_several_sentences(text) else []
            return JSONResponse({"translations": [as_json(one) for one in found], "remarks": remarks})

        async with one_at_a_time:
            if await request.is_disconnected():
                return Response()  # nobody reads it
            return await run_in_threadpool(answer)

    def guarded(answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        """Refuses by ``Host`` and ``Origin``, and forbids to store the answers."""

        async def checked(request: Request) -> Response:
            asked = request.headers.get("host", "")
            if not _is_ours(asked, names):
                found: Response = _error(403, _WRONG_HOST)
            elif _is_foreign(request.headers.get("origin"), asked):
                found = _error(403, "requests from pages of other addresses are refused")
            else:
                found = await answer(request)
            found.headers.update({"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"})
            return found

        return checked

    return Starlette(
        routes=[
            Route("/", guarded(index)),
            Route("/health", guarded(health)),
            Route("/translate", guarded(translate), methods=["POST"]),
        ],
        exception_handlers={HTTPException: _refused, Exception: _failed},
    )


def _question(body: bytes) -> Dict[str, Any]:
    """The members of a request; raises ``ValueError``, which says what is wrong."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError):
        raise ValueError("the request is no JSON") from None
    if not isinstance(asked, dict):
        raise ValueError("the request is no JSON object")
    if asked.get("model", "") is None:
        del asked["model"]
    for name, (kind, what) in _KINDS.items():
        if name in asked and type(asked[name]) is not kind:
            raise ValueError(f"{name}: must be {what}")
        if re.search("[\ud800-\udfff]", str(asked.get(name, ""))):
            raise ValueError(f"{name}: has half of a character")
    if "text" not in asked:
        raise ValueError("text: is missing")
    return asked


def _is_ours(host: str, names: Any) -> bool:
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
    return name.lower().removesuffix(".")


def _is_foreign(origin: Optional[str], asked: str) -> bool:
    """Whether a page of another address than ``asked`` sent the request."""
    if not origin:
        return False
    try:
        return urlsplit(origin).netloc != asked
    except ValueError:
        return True


# --- the answers ------------------------------------------------------------------------------------------------------


def as_json(translation: Translation) -> Dict[str, Any]:
    """A translation as values for JSON: its tokens, words, log probabilities and weights.

    Words are spelt as in ordinary text; tokens are those of the model. Numbers are rounded as in the files of extract,
    and a number that is not finite is None.
    """
    record = translation.record
    source = side(record.source, record.subwords, translation.source_words)
    return {
        "text": translation.text,
        "score": finite(translation.score, DIGITS),
        "source": {**source, "unknown": translation.unknown},
        "target": side(record.target, record.subwords, translation.target_words),
        "given": translation.given,
        "scores": [finite(score, DIGITS) for score in record.scores],
        "attention": _rounded(record.attention),
        "words": {
            "source": translation.source_words,
            "target": translation.target_words,
            "attention": _rounded(record.word_attention()),
        },
    }


def _rounded(rows: Any) -> List[List[Optional[float]]]:
    return [[finite(weight, DIGITS) for weight in row] for row in rows]


def _error(status: int, message: str, headers: Any = None) -> JSONResponse:
    """The one form of all errors."""
    return JSONResponse({"error": message}, status_code=status, headers=headers)


async def _refused(request: Request, problem: Any) -> Response:
    return _error(problem.status_code, f"{request.method} {request.url.path}: {problem.detail}", problem.headers)


async def _failed(request: Request, problem: Exception) -> Response:
    return _error(500, f"the server failed ({type(problem).__name__}); its terminal shows the details")


def _page(models: Dict[str, Any], notes: List[str], examples: Sequence[str]) -> str:
    languages = list(next(iter(models.values())).languages)
    shown = [
        {
            "label": label,
            "checkpoint": one.path,
            "beam": one.beam,
            "separates": one.separates,
            "lowercase": one.lowercase,
        }
        for label, one in models.items()
    ]
    data = {
        "languages": languages,
        "subwords": any(one.subwords != "none" for one in models.values()),
        "models": shown,
        "examples": list(examples),
        "notes": notes,
    }
    return frame.page(
        "serve.html",
        "Translate " + "\u2009\u2192\u2009".join(languages),
        style=frame.read_asset("view.css", "serve.css"),
        script=frame.read_asset("view.js", "serve.js"),
        data=data,
        connect=True,
    )
