"""The web application of ``attn-analysis serve``: the page at ``/``, and ``/translate``, which answers in JSON."""

# fastapi reads the annotations of the functions below: no "from __future__ import annotations" here
import ipaddress
import socket
from typing import Any, Dict, List, Optional
from urllib.parse import urlsplit

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from fairseq_attn_plugin.analysis.inference.translator import Translation, Translator
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.records.record import DIGITS
from fairseq_attn_plugin.analysis.web.explore import finite, side
from fairseq_attn_plugin.analysis.web.server import is_local
from fairseq_attn_plugin.errors import OptionError

__all__ = ["application", "as_json"]


# the message does not contain the machine's name, since a page from elsewhere could read it
_REFUSAL = (
    "this server does not answer to this host name; use localhost, an address such as 127.0.0.1 or the machine's own "
    "name, or start attn-analysis serve with --host NAME"
)


def as_json(translation: Translation) -> Dict[str, Any]:
    """A translation as values for JSON: its tokens, words, log probabilities and weights.

    Words are spelt as in ordinary text; tokens are those of the model. Numbers are rounded as in the files of extract,
    and a number that is not finite is None.
    """
    record = translation.record

    def rounded(rows: Any) -> List[List[Optional[float]]]:
        return [[finite(weight, DIGITS) for weight in row] for row in rows]

    source = side(record.source, record.subwords, translation.source_words)
    return {
        "text": translation.text,
        "score": finite(translation.score, DIGITS),
        "source": {**source, "unknown": translation.unknown},
        "target": side(record.target, record.subwords, translation.target_words),
        "scores": [finite(score, DIGITS) for score in record.scores],
        "attention": rounded(record.attention),
        "words": {
            "source": translation.source_words,
            "target": translation.target_words,
            "attention": rounded(record.word_attention()),
        },
    }


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


def _error(status: int, message: str, headers: Any = None) -> JSONResponse:
    return JSONResponse({"error": message}, status_code=status, headers=headers)


def _said(error: RequestValidationError) -> str:
    """The errors of a request, in one line."""
    # for invalid JSON the place is the position of a character, not a name
    return "; ".join(": ".join([*filter(_is_name, one["loc"][1:]), one["msg"]]) for one in error.errors())


def _is_name(place: Any) -> bool:
    return isinstance(place, str)


def application(
    translator: Translator, host: str = "127.0.0.1", nbest: int = 1, notes: Optional[List[str]] = None
) -> FastAPI:
    """The application for a translator.

    Args:
        translator: translates the sentences
        host: a host name that requests may use, in addition to addresses, ``localhost`` and the machine's own name
        nbest: number of translations, unless a request gives another
        notes: sentences that the page shows to its reader
    """
    # fastapi's documentation pages load scripts from other servers
    app = FastAPI(title="fairseq_attn_plugin", docs_url=None, redoc_url=None)
    names = [_bare(name) for name in ("localhost", host, socket.gethostname())]
    if not is_local(host):  # only the network uses the full name, and looking it up can be slow
        names.append(_bare(socket.getfqdn()))
    data = {
        "languages": list(translator.languages),
        "subwords": translator.subwords != "none",
        "checkpoint": translator.path,
        "beam": translator.beam,
        "notes": notes or [],
    }
    page = frame.page(
        "serve.html",
        "Translate " + "\u2009\u2192\u2009".join(translator.languages),
        style=frame.read_asset("view.css", "serve.css"),
        script=frame.read_asset("view.js", "serve.js"),
        data=data,
        connect=True,
    )

    @app.middleware("http")
    async def only_for_this_machine(request: Request, call_next: Any) -> Any:
        asked = request.headers.get("host", "")
        if not _is_ours(asked, names):
            return _error(403, _REFUSAL)
        if _is_foreign(request.headers.get("origin"), asked):
            return _error(403, "requests from pages of other addresses are refused")
        response = await call_next(request)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    @app.exception_handler(OptionError)
    async def mistake(request: Request, error: OptionError) -> JSONResponse:
        return _error(400, str(error))

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, error: RequestValidationError) -> JSONResponse:
        return _error(422, f'send {{"text": "a sentence"}}, with "nbest" for several translations: {_said(error)}')

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> JSONResponse:
        return _error(error.status_code, f"{request.method} {request.scope['path']}: {error.detail}", error.headers)

    @app.exception_handler(Exception)
    async def failed(request: Request, error: Exception) -> JSONResponse:
        return _error(500, f"the server failed ({type(error).__name__}); its terminal shows the details")

    @app.get("/", response_class=HTMLResponse)
    def index() -> str:
        return page

    # not async: fastapi runs it in a thread, and still serves the page while the model works
    @app.post("/translate")
    def translate(text: str = Body(...), number: int = Body(nbest, alias="nbest")) -> Dict[str, Any]:
        return {"translations": [as_json(one) for one in translator(text, number)]}

    return app
