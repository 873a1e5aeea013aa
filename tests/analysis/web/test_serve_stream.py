"""/stream of fairseq-attn serve: every step of the search, within the bounds of all requests."""

import contextlib
import itertools
import json
import threading

import numpy as np
import pytest
from test_serve_bounds import LONG, Slow, answer, ask, asking, head, question, serving, state, wait_until

from fairseq_attn_plugin.analysis.inference.translation import Partial
from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.errors import OptionError

testclient = pytest.importorskip("fastapi.testclient", reason="NO TEST OF THE SERVER: fastapi or httpx is missing")


class Stepping(Slow):
    """A translator that takes a step when it is told to; it ends with an error, or is stopped."""

    def __init__(self):
        super().__init__()
        self.may, self.stopped = threading.Semaphore(0), threading.Event()

    def __call__(self, text, nbest=1, prefix="", watch=None):
        self.asked.append(text)
        self.began.release()
        record = Record(0, ["a"], ["b"], {"attention": np.ones((1, 2)) / 2}, [-1.0], "none")
        while not self.go.is_set():
            assert self.may.acquire(timeout=LONG)
            if not self.go.is_set():
                try:
                    watch(Partial(record, [], ["a"], ["b"]))
                except BaseException:
                    self.stopped.set()
                    raise
        if text == "broken":
            raise RuntimeError("no")
        raise OptionError("the sentence " + text)


def streamed(text):
    return question(text).replace(b"/translate", b"/stream", 1)


def lines(connection, count=None):
    """Lines of a chunked answer: ``count`` of them, or all."""
    data = b""
    while True:
        found = [json.loads(line) for line in data.split(b"\r\n") if line.startswith(b"{")]
        if (count is not None and len(found) >= count) or data.endswith(b"\r\n0\r\n\r\n"):
            return found
        part = connection.recv(65536)
        if not part:
            return found
        data += part


@pytest.fixture(scope="module")
def translator(tiny_data, zoo):
    return Translator(str(tiny_data), str(zoo("reversal").last), beam=3, cpu=True, clock=itertools.count().__next__)


@pytest.fixture
def client(translator):
    from fairseq_attn_plugin.analysis.web.application import application

    return testclient.TestClient(application(translator, nbest=2), base_url="http://127.0.0.1:8000")


def test_steps_and_translations(client, translator):
    asked = {"text": "ama bel cor dun", "prefix": "nud"}
    answer = client.post("/stream", json=asked)
    assert answer.status_code == 200 and answer.headers["content-type"] == "application/x-ndjson"
    assert answer.headers["cache-control"] == "no-store"
    *steps, last = map(json.loads, answer.text.splitlines())
    assert last == client.post("/translate", json=asked).json()
    assert last["translations"][0]["given"] == 1
    seen = []
    translator("ama bel cor dun", prefix="nud", watch=seen.append)
    assert len(steps) == len(seen) > 3
    assert steps[0]["source"] == {"tokens": ["ama", "bel", "cor", "dun"], "unknown": []}
    attention, scores = [], []
    for number, (step, partial) in enumerate(zip(steps, seen)):
        assert step["step"] == number + 1 and step["target"]["tokens"] == partial.record.target
        assert ("source" in step) == (number == 0)
        attention, scores = attention[: step["keep"]] + step["attention"], scores[: step["keep"]] + step["scores"]
        np.testing.assert_allclose(attention, partial.record.attention, atol=1e-5)
        assert scores == pytest.approx(partial.record.scores, abs=1e-5)
    assert steps[1]["keep"] == 1  # the prefix


@pytest.mark.parametrize(
    ("asked", "status", "message"),
    [
        ({"text": " "}, 400, "there is no word"),
        ({"text": "ama", "nbest": 9}, 400, "--nbest 9"),
        ({"text": "ama", "prefix": "x " * 400}, 400, "the prefix is too long: 400 subwords"),
        ({"text": "ama", "model": "none"}, 400, "model 'none': must be one of "),
        ({"text": "ama", "prefix": 3}, 422, "prefix: "),
        ([], 422, "send {"),
    ],
)
def test_mistakes_have_a_status(client, asked, status, message):
    for path in ("/stream", "/translate"):
        answer = client.post(path, json=asked)
        assert answer.status_code == status and list(answer.json()) == ["error"] and message in answer.json()["error"]


def test_requests_from_elsewhere_are_refused(client):
    for headers in ({"host": "evil.example"}, {"origin": "http://evil.example"}):
        assert client.post("/stream", json={"text": "ama"}, headers=headers).status_code == 403
    assert client.get("/stream").status_code == 405


def test_a_failure_before_the_first_step_is_500(translator, monkeypatch):
    from fairseq_attn_plugin.analysis.web.application import application

    def fail(*_):
        raise RuntimeError("out of something")

    monkeypatch.setattr(type(translator), "translate", fail)
    calm = testclient.TestClient(application(translator), base_url="http://localhost", raise_server_exceptions=False)
    failed = calm.post("/stream", json={"text": "ama"})
    assert failed.status_code == 500 and "RuntimeError" in failed.json()["error"]


def test_steps_come_while_the_search_goes_on():
    slow = Stepping()
    with serving(slow) as address, asking(address, streamed("one")) as connection:
        slow.may.release()
        (first,) = lines(connection, 1)
        assert first["step"] == 1 and not slow.go.is_set()
        slow.go.set()
        slow.may.release()
        assert lines(connection) == [{"error": "the sentence one"}]
        # the connection is as good as before
        connection.sendall(head("/health", method="GET"))
        assert answer(connection)[2]["waiting"] == 0


def test_a_failure_after_the_first_step_is_the_last_line():
    slow = Stepping()
    with serving(slow) as address, asking(address, streamed("broken")) as connection:
        slow.may.release()
        assert lines(connection, 1)[0]["step"] == 1
        slow.go.set()
        slow.may.release()
        assert lines(connection) == [{"error": "the server failed (RuntimeError); its terminal shows the details"}]
        assert ask(address, question("next"))[2] == {"error": "the sentence next"}


def test_time_is_over_before_and_after_the_first_step():
    slow = Stepping()
    with serving(slow, timeout=1.0) as address, contextlib.ExitStack() as stack:
        stack.enter_context(asking(address, streamed("first")))
        assert slow.began.acquire(timeout=LONG)
        assert ask(address, streamed("second"))[0] == 504  # it waited all the time
        slow.may.release()
        # the search of the first is stopped at its next step, and the second one's is not begun
        assert slow.stopped.wait(LONG)
        third = stack.enter_context(asking(address, streamed("third")))
        slow.may.release()
        answers = lines(third)
        assert [list(one)[0] for one in answers] == ["step", "error"]
        assert answers[-1] == {"error": "there was no translation within 1 seconds (--timeout)"}
        assert slow.asked == ["first", "third"]


def test_a_client_that_leaves_ends_its_search():
    slow = Stepping()
    with serving(slow) as address:
        with asking(address, streamed("first")) as connection:
            slow.may.release()
            lines(connection, 1)

        # steps until the server has noticed
        def stopped():
            slow.may.release()
            return slow.stopped.wait(0.05)

        wait_until(stopped)
        wait_until(lambda: state(address)["waiting"] == 0)
        slow.go.set()
        slow.may.release()
        assert ask(address, question("next"))[2] == {"error": "the sentence next"}


def test_a_full_line_is_503():
    slow = Stepping()
    with serving(slow, queue=1) as address, contextlib.ExitStack() as stack:
        stack.enter_context(asking(address, streamed("0")))
        assert slow.began.acquire(timeout=LONG)
        stack.enter_context(asking(address, streamed("1")))
        wait_until(lambda: state(address)["waiting"] == 1)
        status, headers, body = ask(address, streamed("too much"))
        assert status == 503 and int(headers["retry-after"]) >= 1 and "requests are waiting" in body["error"]
        slow.go.set()
        slow.may.release()
        slow.may.release()
