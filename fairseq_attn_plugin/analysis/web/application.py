"""The web application of ``fairseq-attn serve``: the page at ``/``, and addresses that answer in JSON.

``/translate`` translates a sentence, ``/health`` says that the server runs and how many requests wait.
"""

# fastapi reads the annotations of the functions below: no "from __future__ import annotations" here
from typing import Any, Dict, List, Optional, Sequence

from fastapi import Body, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from starlette.exceptions import HTTPException

from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.web.answers import error, reply
from fairseq_attn_plugin.analysis.web.bounds import Bounds
from fairseq_attn_plugin.analysis.web.gate import Gate
from fairseq_attn_plugin.analysis.web.server import QUEUE, TIMEOUT
from fairseq_attn_plugin.analysis.web.waiting import Full, Line
from fairseq_attn_plugin.errors import OptionError

__all__ = ["application"]


def _said(error: RequestValidationError) -> str:
    """The errors of a request, in one line."""
    # for invalid JSON the place is the position of a character, not a name
    return "; ".join(": ".join([*filter(_is_name, one["loc"][1:]), one["msg"]]) for one in error.errors())


def _is_name(place: Any) -> bool:
    return isinstance(place, str)


def application(
    translators: Any,
    host: str = "127.0.0.1",
    nbest: int = 1,
    notes: Optional[List[str]] = None,
    queue: int = QUEUE,
    timeout: float = TIMEOUT,
    examples: Sequence[str] = (),
) -> FastAPI:
    """The application for one or several translators.

    Args:
        translators: {label: translator} of one direction, or one translator
        host: a host name that requests may use, in addition to addresses, ``localhost`` and the machine's own name
        nbest: number of translations, unless a request gives another
        notes: sentences that the page shows to its reader
        queue: requests that may wait while one is translated; a further one is answered with 503
        timeout: seconds after which a request is answered with 504
        examples: sentences that the page offers
    """
    # fastapi's documentation pages load scripts from other servers; nothing here needs a schema of its addresses
    app = FastAPI(title="fairseq_attn_plugin", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Bounds, seconds=timeout)
    app.add_middleware(Gate, host=host)  # the outer one: of a refused request no body is read
    line = Line(queue)
    models: Dict[str, Any] = translators if isinstance(translators, dict) else {translators.path: translators}
    first = next(iter(models.values()))
    page = _page(models, notes or [], examples)

    @app.exception_handler(OptionError)
    async def mistake(request: Request, problem: OptionError) -> JSONResponse:
        return error(400, str(problem))

    @app.exception_handler(RequestValidationError)
    async def misunderstood(request: Request, problem: RequestValidationError) -> JSONResponse:
        return error(422, f'send {{"text": "a sentence"}}, with "nbest" for several translations: {_said(problem)}')

    @app.exception_handler(HTTPException)
    async def refused(request: Request, problem: HTTPException) -> JSONResponse:
        message = f"{request.method} {request.scope['path']}: {problem.detail}"
        return error(problem.status_code, message, problem.headers)

    @app.exception_handler(Full)
    async def full(request: Request, problem: Full) -> JSONResponse:
        return error(503, f"{queue} requests are waiting; try again later", {"Retry-After": str(problem.seconds)})

    @app.exception_handler(Exception)
    async def failed(request: Request, problem: Exception) -> JSONResponse:
        return error(500, f"the server failed ({type(problem).__name__}); its terminal shows the details")

    @app.get("/", response_class=HTMLResponse)
    async def index() -> str:
        return page

    @app.get("/health")
    async def health() -> Dict[str, Any]:
        return {
            "status": "ok",
            "checkpoint": first.path,
            "models": list(models),
            "languages": list(first.languages),
            "waiting": line.waiting,
            "queue": queue,
        }

    def chosen(model: Optional[str]) -> Any:
        if model is not None and model not in models:
            raise OptionError(f"model {model!r}: must be one of {', '.join(models)}")
        return first if model is None else models[model]

    @app.post("/translate", response_class=JSONResponse, response_model=None)
    async def translate(
        text: str = Body(...),
        number: int = Body(nbest, alias="nbest"),
        prefix: str = Body(""),
        model: Optional[str] = Body(None),
    ) -> JSONResponse:
        translator = chosen(model)
        # the long matrices become JSON in the thread as well, while the event loop serves the others
        return await line(lambda: JSONResponse(reply(translator(text, number, prefix), text)))

    return app


def _page(models: Dict[str, Any], notes: List[str], examples: Sequence[str]) -> str:
    languages = list(next(iter(models.values())).languages)
    data = {
        "languages": languages,
        "subwords": any(one.subwords != "none" for one in models.values()),
        "models": [
            {
                "label": label,
                "checkpoint": one.path,
                "beam": one.beam,
                "separates": one.separates,
                "lowercase": one.lowercase,
            }
            for label, one in models.items()
        ],
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
