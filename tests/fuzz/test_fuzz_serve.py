"""Hostile requests to fairseq-attn serve: an answer of JSON, with a state that says whose mistake it is."""

import json

import pytest
from fuzzing import attempt, fuzz
from hypothesis import strategies as st
from mutations import damaged_bytes, damaged_value, values, words
from test_fuzz_records import strict

from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.errors import OptionError

testclient = pytest.importorskip("starlette.testclient", reason="NO TEST OF THE SERVER: starlette or httpx is missing")


@pytest.fixture(scope="module")
def client(tiny_data, zoo):
    from fairseq_attn_plugin.analysis.web.server import application

    app = application({"m": Translator(str(tiny_data), str(zoo("lstm_soft").last), beam=2, cpu=True)}, nbest=2)
    return testclient.TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=True)


questions = st.one_of(
    st.text().map(lambda text: {"text": text}),
    damaged_value({"text": "ama bel cor", "nbest": 2}),
    damaged_value({"text": "ama bel cor", "prefix": "leb ama", "model": "m"}),
    values,
)
bodies = st.one_of(
    questions.map(lambda value: json.dumps(value).encode()),
    damaged_bytes(b'{"text": "ama bel cor", "nbest": 2}'),
    st.sampled_from([b'{"text": "' + b"x" * 100000 + b'"}', b"[" * 60000, b'{"text": ' + b"9" * 5000 + b"}"]),
)
headers = st.dictionaries(
    st.sampled_from(["content-type", "host", "origin", "accept", "expect", "cookie", "x-y"]),
    st.one_of(
        words, st.sampled_from(["application/json", "text/plain", "127.0.0.1", "[::1]", "application/json; charset=x"])
    ),
    max_size=2,
)
paths = st.one_of(
    st.just("/translate"),
    st.sampled_from(["/", "/health", "/openapi.json", "//", "/translate/", "/%00", "/?x"]),
)


@fuzz(st.sampled_from(["POST", "POST", "POST", "GET", "PUT", "HEAD", "OPTIONS"]), paths, bodies, headers)
def test_requests(client, method, path, body, given):
    given = {"content-type": "application/json", **given}
    given = {name: value.encode("utf-8", "surrogatepass") for name, value in given.items()}

    def ask():
        answer = client.request(method, path, content=body, headers=given)
        assert answer.status_code in (200, 307, 400, 403, 404, 405, 413, 422), answer.status_code
        if answer.headers.get("content-type", "").startswith("text/html"):
            assert method in ("GET", "HEAD") and answer.status_code == 200
        elif method != "HEAD" and answer.status_code != 307:
            content = strict(answer.text)
            if answer.status_code != 200:
                assert list(content) == ["error"]
                raise OptionError(content["error"])

    attempt("requests", ask)
