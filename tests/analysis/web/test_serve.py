"""fairseq-attn serve: a sentence goes in, translations and attention come out; nobody from elsewhere is answered."""

import json
import re

import numpy as np
import pytest

from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError

testclient = pytest.importorskip("starlette.testclient", reason="NO TEST OF THE SERVER: starlette or httpx is missing")
server = pytest.importorskip(
    "fairseq_attn_plugin.analysis.web.server", reason="NO TEST OF THE SERVER: uvicorn is missing"
)


@pytest.fixture(scope="module")
def checkpoint(zoo):
    return zoo("lstm_soft").last


@pytest.fixture(scope="module")
def translator(tiny_data, checkpoint):
    return Translator(str(tiny_data), str(checkpoint), beam=3, cpu=True, overrides={"max_source_positions": 12})


@pytest.fixture
def client(translator):
    app = server.application(translator, nbest=2, notes=["a <note>"])
    return testclient.TestClient(app, base_url="http://127.0.0.1:8000")


def test_text_is_made_into_words(translator):
    # line ends and characters of control are blanks
    tokens, ids = translator.encode(" AMA\n bel\x00\u2028cor ")
    assert tokens == ["ama", "bel", "cor"] and len(ids) == 4
    for text in ("", "  \n ", "\x00"):
        with pytest.raises(OptionError, match="there is no word"):
            translator(text)
    with pytest.raises(OptionError, match="too long: 12 subwords, the model takes at most 11"):
        translator("ama " * 12)
    assert translator("ama " * 11)[0].record.attention.shape[1] == 12
    with pytest.MonkeyPatch.context() as patch, pytest.raises(
        OptionError, match="5001 characters, at most 5000 are read"
    ):
        patch.setattr(type(translator), "encode", lambda *_: pytest.fail("a long text was tokenised"))
        translator("x" * 5001)
    for number in (0, 4):
        with pytest.raises(OptionError, match=f"--nbest {number}: must be from 1 to 3"):
            translator("ama", nbest=number)


@pytest.mark.parametrize("word", ["<s>", "<pad>", "</s>", "<unk>"])
def test_words_spelt_as_special_symbols_stay_words(translator, word):
    """The model reads an unknown word, as for every other word that the vocabulary lacks."""
    first, other = translator(f"ama {word} bel")[0], translator("ama zzz bel")[0]
    assert translator.encode(f"ama {word} bel")[1].tolist() == translator.encode("ama zzz bel")[1].tolist()
    assert first.record.source == ["ama", word, "bel"] and first.unknown == [1]
    assert (first.text, first.score) == (other.text, other.score)
    assert translator(word)[0].record.attention.shape[1] == 2


def test_subwords_and_tokenizer(tiny_data, checkpoint, tmp_path):
    """Words are split by the codes, into no pieces but those of the dictionary."""
    codes = tmp_path / "codes"
    codes.write_text("#version: 0.2\na m\nam a</w>\n")
    made = Translator(str(tiny_data), str(checkpoint), bpe_codes=str(codes), tokenizer="moses", case="keep", cpu=True)
    assert made.encode("ama, ama")[0] == ["ama", ",", "ama"]
    assert made.encode("AMA")[0][-1] == "A" and not made.lowercase
    assert made("ama.")[0].record.source == ["ama", "."] and made("ama.")[0].unknown == [1]


def test_words_are_shown_as_they_were_typed(tiny_data, checkpoint, monkeypatch):
    """Moses writes &lt; for what was typed as <: the model reads that, the reader does not."""
    made = Translator(str(tiny_data), str(checkpoint), tokenizer="moses", beam=1, cpu=True)
    one = made("a<b [\"&'|")[0]
    assert one.record.source == ["a", "&lt;", "b", "&#91;", "&quot;", "&amp;", "&apos;", "&#124;"]
    assert one.source_words == ["a", "<", "b", "[", '"', "&", "'", "|"]
    answer = server.as_json(one)
    assert answer["source"]["tokens"] == one.record.source and answer["source"]["pieces"] == [1] * 8
    assert answer["source"]["words"] == answer["words"]["source"] == one.source_words
    # of what the model writes the same holds
    monkeypatch.setattr(made.task.target_dictionary, "symbols", ["&lt;"] * len(made.task.target_dictionary))
    one = made("ama")[0]
    assert set(one.record.target) == {"&lt;"} and set(one.target_words) == {"<"} and set(one.text) <= set("< ")
    # without the tokeniser, or its escapes, what is there is what was typed
    for options in ({}, {"tokenizer": "moses", "moses_options": {"no_escape": True}}):
        made = Translator(str(tiny_data), str(checkpoint), beam=1, cpu=True, **options)
        one = made("a < &lt")[0]
        assert one.source_words == one.record.source and "<" in one.source_words


def test_answers_in_json(client, translator, monkeypatch):
    answer = client.post("/translate", json={"text": "ama bel zzz"})
    assert answer.status_code == 200 and answer.json()["remarks"] == []
    first, second = answer.json()["translations"]
    expected = translator("ama bel zzz", nbest=2)
    assert [first["text"], second["text"]] == [one.text for one in expected]
    assert first["source"] == {"tokens": ["ama", "bel", "zzz"], "unknown": [2]}
    np.testing.assert_allclose(first["attention"], expected[0].record.attention, atol=1e-5)
    np.testing.assert_allclose(first["words"]["attention"], expected[0].record.word_attention(), atol=1e-5)
    answer = client.post("/translate", json={"text": "ama belcor. Ama.", "nbest": 3}).json()
    assert len(answer["translations"]) == 3 and "give each sentence a line" in answer["remarks"][0]
    # numbers that are not finite are null
    found = expected[0]
    found.record.attention[0, 0], found.record.scores[0] = np.nan, float("-inf")
    monkeypatch.setattr(type(translator), "translate", lambda *_: [found._replace(score=float("nan"))])
    one = client.post("/translate", json={"text": "ama bel"}).json()["translations"][0]
    assert one["score"] is None and one["scores"][0] is None and one["scores"][1] < 0
    assert one["attention"][0][0] is None and one["words"]["attention"][0][0] is None and one["attention"][0][1] >= 0


@pytest.mark.parametrize(
    ("question", "status", "message"),
    [
        ({"text": "ama " * 999}, 400, "the sentence is too long: 999 subwords"),
        ({"words": "ama"}, 422, 'send {"text": "a sentence"}, with "nbest" for several translations: text: '),
        ({"text": 5, "\ud800": 1}, 422, "text: "),
        ({"text": "ama", "nbest": "many"}, 422, "nbest: "),
        ("ama", 422, "send {"),
        ({"text": "a \ud800"}, 422, "text: has half of a character"),
    ],
)
def test_mistakes_are_answered(client, question, status, message):
    headers = {"content-type": "application/json"}
    answer = client.post("/translate", content=json.dumps(question), headers=headers)
    assert answer.status_code == status and message in answer.json()["error"] and list(answer.json()) == ["error"]


def test_all_errors_have_one_form(client, translator, monkeypatch):
    broken = client.post("/translate", content=b"{", headers={"content-type": "application/json"})
    assert broken.status_code == 422 and broken.json()["error"].endswith("several translations: the request is no JSON")
    assert client.get("/gone").json() == {"error": "GET /gone: Not Found"}
    wrong = client.get("/translate")
    assert wrong.status_code == 405 and wrong.json() == {"error": "GET /translate: Method Not Allowed"}
    assert wrong.headers["allow"] == "POST"

    def fail(*_):
        raise RuntimeError("out of something")

    monkeypatch.setattr(type(translator), "translate", fail)
    calm = testclient.TestClient(client.app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
    failed = calm.post("/translate", json={"text": "ama"})
    assert failed.status_code == 500
    assert failed.json() == {"error": "the server failed (RuntimeError); its terminal shows the details"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "LocalHost.:8000"}, 200),
        ({"host": "127.0.0.1."}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"host": "10.0.0.3"}, 200),
        ({"host": "127.0.0.1:8000", "origin": "http://127.0.0.1:8000"}, 200),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "[::1"}, 403),
        ({"host": ""}, 403),
        ({"host": "localhost.."}, 403),
        ({"origin": "http://["}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
    ],
)
def test_only_this_machine_is_answered(client, headers, status):
    """A page of somewhere else, whose name was made to point here, sends its own name as host or origin."""
    answers = [client.get("/", headers=headers), client.post("/translate", json={"text": "ama"}, headers=headers)]
    assert [answer.status_code for answer in answers] == [status, status]
    if status == 403:
        assert all(list(answer.json()) == ["error"] for answer in answers)


def test_names_that_are_answered(translator, monkeypatch):
    monkeypatch.setattr(server.socket, "gethostname", lambda: "Desk")
    monkeypatch.setattr(server.socket, "getfqdn", lambda: "desk.example.org.")

    def answers(host, names):
        client = testclient.TestClient(server.application(translator, host), base_url="http://localhost:8000")
        return [client.get("/", headers={"host": name}).status_code for name in names]

    names = ["desk:8000", "DESK.example.org.:8000", "alias", "other.example.org"]
    assert answers("0.0.0.0", names) == [200, 200, 403, 403]
    assert answers("Alias.", names) == [200, 200, 200, 403]
    # nobody can reach 127.0.0.1 by a name of the network
    assert answers("127.0.0.1", names) == [200, 403, 403, 403]
    client = testclient.TestClient(server.application(translator), base_url="http://desk.lan:8000")
    assert re.search(r"this host name; use localhost, .* 127\.0\.0\.1 .* --host", client.get("/").json()["error"])


def test_the_page_loads_nothing_from_elsewhere(client):
    text = client.get("/").text
    assert "default-src 'none'" in text and "connect-src 'self'" in text and "a \\u003cnote\\u003e" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    assert [client.get(path).status_code for path in ("/docs", "/redoc", "/openapi.json")] == [404] * 3


def test_mistakes_are_named(tiny_data, checkpoint, tmp_path, monkeypatch):
    given = ["serve", str(tiny_data), "--path", str(checkpoint), "--port", "0", "--cpu"]
    (tmp_path / "codes").write_text("#version: 0.2\na b c d\n")
    for options, message in [
        (["--nbest", "6"], "--nbest 6: must be at most --beam 5"),
        (["--bpe-codes", "gone"], "--bpe-codes gone: there is no such file"),
        (["--bpe-codes", str(tmp_path / "codes")], "codes: must be a file of subword-nmt"),
        (["--sentencepiece-model", str(tmp_path / "codes")], "codes: must be a file of SentencePiece"),
        (["--model-overrides", "x"], "--model-overrides x: must be a dictionary"),
    ]:
        with pytest.raises(OptionError, match=message):
            main([*given, *options])
    monkeypatch.setitem(__import__("sys").modules, "starlette", None)
    with pytest.raises(OptionError, match=r"pip install 'fairseq_attn_plugin\[serve\]'"):
        main(given)


def test_addresses(tiny_data):
    """Those that cannot be used are known before anything is loaded."""
    assert [server.is_local(host) for host in ("127.0.0.1", "::1", "localhost", "127.8.8.8")] == [True] * 4
    assert [server.is_local(host) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org")] == [False] * 4
    with server.bind("127.0.0.1", 0) as other:
        port = other.getsockname()[1]
        for options, message in [
            (["--port", str(port)], f"^--port {port}: is taken by another program"),
            (["--port", "70000"], "--port 70000: must be from 0"),
            (["--host", "no such host", "--port", "0"], "--host no such host: must be an address"),
            (["--host", "192.0.2.1", "--port", "0"], "--host 192.0.2.1: cannot be used"),
        ]:
            with pytest.raises(OptionError, match=message):
                main(["serve", str(tiny_data), "--path", "gone.pt", *options])
