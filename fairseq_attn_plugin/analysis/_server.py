"""The web application of ``attn-analysis serve``: a page, and ``/translate``, which answers it in JSON."""

# fastapi reads the annotations of the functions below: no "from __future__ import annotations" here
import ipaddress
import socket
from typing import Any, Dict, List, Optional
from urllib.parse import urlsplit

from fastapi import Body, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse

from fairseq_attn_plugin.errors import OptionError

from . import _html
from .explore import side
from .translator import Translation, Translator

__all__ = ["application", "as_json"]


def as_json(translation: Translation) -> Dict[str, Any]:
    """A translation with its tokens, words, log probabilities and weights; numbers as in the files of extract."""
    record = translation.record

    def rounded(rows: Any) -> List[List[float]]:
        return [[round(float(weight), 5) for weight in row] for row in rows]

    return {
        "text": translation.text,
        "score": round(translation.score, 5),
        "source": {**side(record.source, record.subwords), "unknown": translation.unknown},
        "target": side(record.target, record.subwords),
        "scores": [round(score, 5) for score in record.scores],
        "attention": rounded(record.attention),
        "words": {
            "source": record.source_words,
            "target": record.target_words,
            "attention": rounded(record.word_attention()),
        },
    }


def _is_ours(host: str, names: List[str]) -> bool:
    """Whether ``Host`` is an address or a name of this machine.

    A page from elsewhere whose name was made to point here (DNS rebinding) sends its own name.
    """
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
        return True
    except ValueError:
        return name.lower() in names


def application(
    translator: Translator, host: str = "127.0.0.1", nbest: int = 1, notes: Optional[List[str]] = None
) -> FastAPI:
    """The application for a translator.

    Args:
        translator: what translates
        host: a name under which it may be asked, besides addresses, ``localhost`` and the machine's own name
        nbest: translations to show, unless a request says otherwise
        notes: sentences for the reader of the page
    """
    # the pages of documentation would be loaded from elsewhere
    app = FastAPI(title="fairseq_attn_plugin", docs_url=None, redoc_url=None)
    names = [name.lower() for name in ("localhost", host, socket.gethostname())]
    data = {
        "languages": list(translator.languages),
        "subwords": translator.subwords != "none",
        "checkpoint": translator.path,
        "beam": translator.beam,
        "notes": notes or [],
    }
    page = _html.page(
        "Translate " + "\u2009\u2192\u2009".join(translator.languages),
        _html.read_asset("serve.html"),
        style=_html.read_asset("view.css") + _html.read_asset("serve.css"),
        script=_html.read_asset("view.js") + _html.read_asset("serve.js"),
        data=data,
        connect=True,
    )

    @app.middleware("http")
    async def only_for_this_machine(request: Request, call_next: Any) -> Any:
        asked, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not _is_ours(asked, names) or (origin and urlsplit(origin).netloc != asked):
            return JSONResponse({"error": "this address is not served here"}, status_code=403)
        response = await call_next(request)
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    @app.exception_handler(OptionError)
    async def mistake(request: Request, error: OptionError) -> JSONResponse:
        return JSONResponse({"error": str(error)}, status_code=400)

    @app.get("/", response_class=HTMLResponse)
    def index() -> str:
        return page

    # not async: fastapi runs it in a thread, so that the page is still served while the model works
    @app.post("/translate")
    def translate(text: str = Body(...), number: int = Body(nbest, alias="nbest")) -> Dict[str, Any]:
        return {"translations": [as_json(one) for one in translator(text, number)]}

    return app
