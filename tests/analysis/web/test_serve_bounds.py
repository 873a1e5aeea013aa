"""fairseq-attn serve bounds what a request costs: the size of its body, and one translation at a time."""

import contextlib
import http.client
import json
import socket
import threading
import time

import pytest

from fairseq_attn_plugin.errors import OptionError

pytest.importorskip("starlette", reason="NO TEST OF THE SERVER: starlette is missing")
pytest.importorskip("uvicorn", reason="NO TEST OF THE SERVER: uvicorn is missing")

LONG = 30.0  # seconds in which everything here happens, or never


class Slow:
    """A translator whose translations last until ``go`` is set; it has attention to nothing."""

    path, languages, beam, subwords = "checkpoint.pt", ("xx", "yy"), 1, "none"
    separates = lowercase = False

    def __init__(self):
        self.go, self.began, self.asked = threading.Event(), threading.Semaphore(0), []

    def __call__(self, text, nbest=1, prefix=""):
        self.asked.append(text)
        self.began.release()
        assert self.go.wait(LONG)
        raise OptionError("the sentence " + text)  # an answer as good as any


@contextlib.contextmanager
def serving(translator, **options):
    """The address of a server in a thread."""
    import uvicorn

    from fairseq_attn_plugin.analysis.web.server import application, bind

    listener = bind("127.0.0.1", 0)
    app = application(translator, **options)
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", http="h11", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        translator.go.set()
        server.should_exit = True
        thread.join(LONG)
        listener.close()


def head(path="/translate", *more, method="POST", host="127.0.0.1"):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *more, "", ""]).encode()


def question(text):
    body = json.dumps({"text": text}).encode()
    return head("/translate", "Content-Type: application/json", f"Content-Length: {len(body)}") + body


def answer(connection):
    """Status, headers and body of an answer."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return response.status, response.headers, json.loads(response.read())


@contextlib.contextmanager
def asking(address, data):
    with socket.create_connection(address, timeout=LONG) as connection:
        connection.sendall(data)
        yield connection


def ask(address, data):
    with asking(address, data) as connection:
        return answer(connection)


def test_a_long_body_is_refused():
    chunk = b"%x\r\n%s\r\n" % (50000, b"x" * 50000)
    with serving(Slow()) as address:
        chunked = head("/translate", "Transfer-Encoding: chunked") + chunk * 2
        status, headers, body = ask(address, chunked)
        assert status == 413 and body == {"error": "the request is too long: at most 64096 bytes are read"}
        assert headers["cache-control"] == "no-store"
        assert ask(address, head("/translate", "Content-Length: 70000") + b"x" * 70000)[0] == 413
        # a request that is refused anyway is not read
        assert ask(address, head("/translate", "Content-Length: 200000000", host="evil.example"))[0] == 403
        assert ask(address, head("/gone", "Content-Length: 200000000"))[0] == 404


def test_a_body_that_does_not_arrive_is_given_up(monkeypatch):
    from fairseq_attn_plugin.analysis.web import server

    monkeypatch.setattr(server, "MOST_SECONDS", 0.2)
    with serving(Slow()) as address:
        status, _, body = ask(address, question("never")[:-3])
        assert status == 408 and body == {"error": "the request did not arrive within 0.2 seconds"}


def test_the_longest_text_is_read():
    """5,000 characters may need twelve bytes each."""
    slow = Slow()
    slow.go.set()
    with serving(slow) as address:
        assert ask(address, question("\U0001f600" * 5000))[0] == 400
        assert slow.asked == ["\U0001f600" * 5000]


def test_one_translation_at_a_time_and_none_for_a_client_that_has_left():
    slow = Slow()
    with serving(slow) as address, contextlib.ExitStack() as stack:
        asked = [stack.enter_context(asking(address, question("0")))]
        assert slow.began.acquire(timeout=LONG)
        asked.append(stack.enter_context(asking(address, question("1"))))
        with asking(address, question("left")):
            time.sleep(0.3)
        time.sleep(0.3)
        models = {"models": ["checkpoint.pt"], "languages": ["xx", "yy"]}
        known = ask(address, head("/health", method="GET"))[2]
        assert known == {"status": "ok", "checkpoint": "checkpoint.pt", **models}  # answered meanwhile
        assert slow.asked == ["0"]
        slow.go.set()
        assert [answer(one)[2]["error"] for one in asked] == ["the sentence 0", "the sentence 1"]
        assert ask(address, question("2"))[2] == {"error": "the sentence 2"}
        assert slow.asked == ["0", "1", "2"]
