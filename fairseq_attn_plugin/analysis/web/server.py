"""The server of ``fairseq-attn serve``: the page at ``/``, and ``/translate``, which answers in JSON.

It is for one reader, on this machine: it listens on 127.0.0.1, refuses what a page from elsewhere has sent, and reads
requests of a bounded length.
"""

import contextlib
import json
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Dict, List, Optional, Sequence
from urllib.parse import urlsplit

from fairseq_attn_plugin.analysis.inference.translation import MOST_CHARACTERS, Translation
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.records.record import DIGITS
from fairseq_attn_plugin.analysis.web.explore import finite, side
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import parse_json
from fairseq_attn_plugin.text.reading import SEVERAL, has_several_sentences, unspaced

HOST = "127.0.0.1"
# of a request: JSON may write a character as \ud83d\ude00; the rest is for the other members
MOST_BYTES = 12 * MOST_CHARACTERS + 4096
_KINDS = {"text": (str, "a text"), "nbest": (int, "a number"), "model": (str, "a text")}


class Server(ThreadingHTTPServer):
    """A server at a port of this machine, at any free one if ``port`` is 0. Requests wait until :meth:`start`.

    A browser opens connections that it may not use, so that each has a thread; translators translate one sentence at a
    time. Raises ``OptionError`` if the port cannot be opened.
    """

    def __init__(self, port: int):
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            reason = getattr(error, "strerror", None) or "must be from 0 to 65535"
            raise OptionError(
                f"--port {port}: cannot be opened: {reason}; choose another, or 0 for any free port"
            ) from None

    def start(self, models: Dict[str, Any], nbest: int, notes: Sequence[str], examples: Sequence[str]) -> None:
        """Answers requests until Ctrl+C.

        Args:
            models: {label: translator}, all of one direction; the first one translates unless a request names another
            nbest: number of translations, unless a request gives another
            notes: sentences that the page shows to its reader
            examples: sentences that the page offers
        """
        self.models, self.nbest, self.page = models, nbest, _page(models, notes, examples)
        self.serve_forever()

    def answer(self, body: bytes) -> Dict[str, Any]:
        """The answer to a request; raises ``OptionError``, which says what is wrong with it."""
        asked = _question(body)
        label = asked.get("model") or next(iter(self.models))
        if label not in self.models:
            raise OptionError(f"model {label!r}: must be one of {', '.join(self.models)}")
        found = self.models[label](asked["text"], asked.get("nbest", self.nbest))
        remarks = [SEVERAL] if has_several_sentences(asked["text"]) else []
        return {"translations": [as_json(one) for one in found], "remarks": remarks}


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 10.0  # seconds that a part of a request may take

    def handle(self) -> None:
        with contextlib.suppress(ConnectionError):  # of a reader who leaves before the request is read
            super().handle()

    def do_GET(self) -> None:
        if self._is_ours("/"):
            self._send(200, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        if not self._is_ours("/translate"):
            return
        try:
            length = int(self.headers.get("Content-Length") or -1)
        except ValueError:
            length = -1
        if not 0 <= length <= MOST_BYTES:
            return self._refuse(400, f"a request must have a Content-Length of at most {MOST_BYTES} bytes")
        try:
            body = self.rfile.read(length)
        except (TimeoutError, ConnectionError):
            body = b""
        if len(body) < length:
            return self._refuse(400, "the request was cut short")
        try:
            found = self.server.answer(body)
        except OptionError as error:
            return self._refuse(400, str(error))
        except Exception as error:
            self._refuse(500, f"the model has failed: {type(error).__name__}; the terminal shows more")
            raise
        self._send(200, "application/json", json.dumps(found))

    def _is_ours(self, path: str) -> bool:
        """Whether the request is for ``path``, and neither to another host nor of a page of another address.

        A page from elsewhere whose domain resolves to this machine (DNS rebinding) sends its own name as ``Host``. If
        the request is refused, it is answered here.
        """
        host, origin = self.headers.get("Host", ""), self.headers.get("Origin")
        name = asked = None
        with contextlib.suppress(ValueError):
            name = urlsplit(f"//{host}").hostname
            asked = urlsplit(self.path).path
        if name not in (HOST, "localhost") or origin not in (None, f"http://{host}"):
            self._refuse(403, f"only requests to {HOST} or localhost, from pages of this server, are answered")
        elif asked != path:
            self._refuse(404, "there are GET / and POST /translate")
        else:
            return True
        return False

    def send_error(self, code: int, message: Optional[str] = None, explain: Optional[str] = None) -> None:
        """Answers what the standard library refuses, such as other methods; in JSON, like every refusal."""
        self._refuse(code, message or HTTPStatus(code).phrase)

    def _refuse(self, status: int, message: str) -> None:
        self._send(status, "application/json", json.dumps({"error": message}))

    def _send(self, status: int, kind: str, text: str) -> None:
        with contextlib.suppress(ConnectionError):  # of a reader who has left
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.end_headers()
            self.wfile.write(text.encode())

    def log_message(self, format: str, *args: Any) -> None:
        """Prints no line for each request."""


def _question(body: bytes) -> Dict[str, Any]:
    """The members of a request; raises ``OptionError``, which says what is wrong."""
    try:
        asked = parse_json(body)
    except ValueError:
        asked = None
    if not isinstance(asked, dict) or "text" not in asked:
        raise OptionError('send JSON such as {"text": "a sentence"}, with "nbest" for several translations')
    for name, (kind, what) in _KINDS.items():
        if name in asked and type(asked[name]) is not kind:
            raise OptionError(f"{name}: must be {what}")
    return asked


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


def _page(models: Dict[str, Any], notes: Sequence[str], examples: Sequence[str]) -> str:
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
        "unspaced": any(unspaced(one.subwords, *languages) for one in models.values()),
        "models": shown,
        "examples": list(examples),
        "notes": list(notes),
    }
    return frame.page(
        "serve.html",
        "Translate " + "\u2009\u2192\u2009".join(languages),
        style=frame.read_asset("view.css", "serve.css"),
        script=frame.read_asset("view.js", "serve.js"),
        data=data,
        connect=True,
    )
