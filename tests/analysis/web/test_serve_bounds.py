"""fairseq-attn serve bounds what a request costs: the size of its body, its time, and the line in which it waits."""

import asyncio
import contextlib
import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest

from fairseq_attn_plugin.errors import OptionError

pytest.importorskip("fastapi", reason="NO TEST OF THE SERVER: fastapi is missing")
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

    from fairseq_attn_plugin.analysis.web.application import application
    from fairseq_attn_plugin.analysis.web.server import bind

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
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        assert part, "the server closed the connection without an answer"
        data += part
    first, _, body = data.partition(b"\r\n\r\n")
    status, *lines = first.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    while len(body) < int(headers["content-length"]):
        body += connection.recv(65536)
    return int(status.split()[1]), headers, json.loads(body)


@contextlib.contextmanager
def asking(address, data):
    with socket.create_connection(address, timeout=LONG) as connection:
        connection.sendall(data)
        yield connection


def ask(address, data):
    with asking(address, data) as connection:
        return answer(connection)


def state(address):
    return ask(address, head("/health", method="GET"))[2]


def wait_until(condition):
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_long_body_is_refused_before_it_is_sent():
    with serving(Slow()) as address:
        status, headers, body = ask(address, head("/translate", "Content-Length: 200000000"))
        assert status == 413 and body == {"error": "the request is too long: at most 64096 bytes are read"}
        assert headers["connection"] == "close" and headers["cache-control"] == "no-store"
        # for every address, also with a number that no machine counts to
        for path in ("/", "/gone"):
            assert ask(address, head(path, "Content-Length: " + "9" * 19))[0] == 413
        assert ask(address, head("/translate", "Content-Length: 200000000", host="evil.example"))[0] == 403


def test_a_client_that_goes_on_sending_sees_the_refusal():
    chunk = b"%x\r\n%s\r\n" % (50000, b"x" * 50000)
    with serving(Slow()) as address:
        status, _, _ = ask(address, head("/translate", "Transfer-Encoding: chunked") + chunk * 200 + b"0\r\n\r\n")
        assert status == 413
        assert ask(address, head("/translate", "Content-Length: 5000000") + b"x" * 5000000)[0] == 413


def test_no_more_of_a_body_is_held_than_is_read():
    from fairseq_attn_plugin.analysis.web.bounds import Bounds

    received, sent = [], []

    async def receive():
        received.append(len(sent))
        return {"type": "http.request", "body": b"x" * 1000, "more_body": len(received) < 500}

    async def send(message):
        sent.append(message)

    asyncio.run(Bounds(None, 5.0, 10000)({"type": "http", "headers": []}, receive, send))
    assert sent[0]["status"] == 413
    assert received.count(0) == 11  # parts read before the answer began; the rest is dropped after it
    assert len(received) == 500 and sent[-1] == {"type": "http.response.body", "body": b""}


def test_the_longest_text_is_read():
    """5,000 characters may need twelve bytes each."""
    slow = Slow()
    slow.go.set()
    with serving(slow) as address:
        assert ask(address, question("\U0001f600" * 5000))[0] == 400
        assert slow.asked == ["\U0001f600" * 5000]


def test_a_body_that_does_not_come():
    with serving(Slow(), timeout=0.2) as address:
        status, headers, body = ask(address, head("/translate", "Content-Length: 10") + b"{")
        assert status == 408 and body == {"error": "the body did not arrive within 0.2 seconds"}
        assert headers["connection"] == "close"


def test_a_slow_translation_is_answered_with_504_and_waiting_ones_do_not_run():
    slow = Slow()
    with serving(slow, timeout=1.0) as address, contextlib.ExitStack() as stack:
        asked = [stack.enter_context(asking(address, question("first")))]
        assert slow.began.acquire(timeout=LONG)
        asked += [stack.enter_context(asking(address, question(text))) for text in ("second", "third")]
        for status, _, body in map(answer, asked):
            assert status == 504 and body == {"error": "there was no translation within 1 seconds (--timeout)"}
        slow.go.set()
        wait_until(lambda: ask(address, question("fourth"))[2] == {"error": "the sentence fourth"})
        assert slow.asked[0] == "first" and set(slow.asked[1:]) == {"fourth"}


def test_body_and_answer_have_one_limit_and_work_ends_before_the_answer(monkeypatch):
    from fairseq_attn_plugin.analysis.web import bounds

    clock, order = iter([0.0, LONG]), []  # the body takes all the time
    monkeypatch.setattr(bounds, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    body = iter([{"type": "http.request", "body": b"{}"}])

    async def receive():
        return next(body, None) or await asyncio.Event().wait()

    async def app(scope, receive, send):
        try:
            await asyncio.Event().wait()
        finally:
            order.append("cancelled")

    async def send(message):
        order.append(message.get("status", "sent"))

    scope = {"type": "http", "headers": []}
    asyncio.run(asyncio.wait_for(bounds.Bounds(app, LONG)(scope, receive, send), LONG / 2))
    assert order == ["cancelled", 504, "sent"]


def test_a_client_that_leaves_is_not_translated_for(monkeypatch):
    from fairseq_attn_plugin.analysis.web.bounds import Bounds

    slow, ended, run = Slow(), [], Bounds._answer

    async def noted(self, scope, *rest):
        try:
            await run(self, scope, *rest)
        finally:
            ended.append(scope["path"])

    monkeypatch.setattr(Bounds, "_answer", noted)
    with serving(slow) as address, asking(address, question("first")) as first:
        assert slow.began.acquire(timeout=LONG)
        with asking(address, question("second")):
            wait_until(lambda: state(address)["waiting"] == 1)
        wait_until(lambda: "/translate" in ended)  # the server has noticed
        slow.go.set()
        assert answer(first)[2] == {"error": "the sentence first"}
        assert ask(address, question("third"))[2] == {"error": "the sentence third"}
        assert slow.asked == ["first", "third"]


def test_a_full_line_is_answered_with_503_and_health_is_told_meanwhile():
    slow = Slow()
    with serving(slow, queue=2) as address, contextlib.ExitStack() as stack:
        asked = [stack.enter_context(asking(address, question("0")))]
        assert slow.began.acquire(timeout=LONG)
        for number in (1, 2):
            asked.append(stack.enter_context(asking(address, question(str(number)))))
            wait_until(lambda number=number: state(address)["waiting"] == number)
        status, headers, body = ask(address, question("too much"))
        assert status == 503 and int(headers["retry-after"]) >= 1
        assert body == {"error": "2 requests are waiting; try again later"}
        assert state(address) == {
            "status": "ok",
            "checkpoint": "checkpoint.pt",
            "models": ["checkpoint.pt"],
            "languages": ["xx", "yy"],
            "waiting": 2,
            "queue": 2,
        }
        slow.go.set()
        assert [answer(one)[2]["error"] for one in asked] == ["the sentence 0", "the sentence 1", "the sentence 2"]
        assert slow.asked == ["0", "1", "2"]
        assert state(address)["waiting"] == 0


def test_no_queue_at_all():
    slow = Slow()
    with serving(slow, queue=0) as address, asking(address, question("first")) as first:
        assert slow.began.acquire(timeout=LONG)
        assert ask(address, question("second"))[0] == 503
        slow.go.set()
        assert answer(first)[0] == 400


def test_a_failure_does_not_end_the_line():
    from fairseq_attn_plugin.analysis.web.waiting import Line

    async def both():
        line = Line(1)

        def fail():
            raise RuntimeError("no")

        with pytest.raises(RuntimeError):
            await line(fail)
        return await line(lambda: 5), line.waiting

    assert asyncio.run(both()) == (5, 0)
