"""fairseq-attn serve: a sentence goes in, translations and attention come out; nobody from elsewhere is answered."""

import contextlib
import http.client
import json
import re
import socket
import struct
import threading
import time

import numpy as np
import pytest

from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.analysis.web.server import HOST, MOST_BYTES, Server, _Handler, as_json
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError


@pytest.fixture(scope="module")
def checkpoint(zoo):
    return zoo("lstm_soft").last


@pytest.fixture(scope="module")
def translator(tiny_data, checkpoint):
    return Translator(str(tiny_data), str(checkpoint), beam=3, cpu=True, overrides={"max_source_positions": 12})


@contextlib.contextmanager
def serving(models, nbest=1, notes=(), examples=()):
    """The port of a server in a thread."""
    with Server(0) as server:
        thread = threading.Thread(target=server.start, args=(models, nbest, notes, examples))
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def port(translator):
    with serving({"one": translator, "two": translator}, nbest=2, notes=["a <note>"]) as port:
        yield port


def ask(port, method, path, body=None, **headers):
    """Status, headers and text of an answer."""
    connection = http.client.HTTPConnection(HOST, port, timeout=30)
    connection.request(method, path, body, headers)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read().decode()


def post(port, body, **headers):
    """Status and JSON of an answer of /translate."""
    text = body if isinstance(body, bytes) else json.dumps(body)
    status, _, answer = ask(port, "POST", "/translate", text, **headers)
    return status, json.loads(answer)


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
    answer = as_json(one)
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


def test_answers_in_json(port, translator, monkeypatch):
    status, answer = post(port, {"text": "ama bel zzz"})
    assert status == 200 and answer["remarks"] == []
    first, second = answer["translations"]
    expected = translator("ama bel zzz", nbest=2)
    assert [first["text"], second["text"]] == [one.text for one in expected]
    assert first["source"] == {"tokens": ["ama", "bel", "zzz"], "unknown": [2]}
    np.testing.assert_allclose(first["attention"], expected[0].record.attention, atol=1e-5)
    np.testing.assert_allclose(first["words"]["attention"], expected[0].record.word_attention(), atol=1e-5)
    answer = post(port, {"text": "ama belcor. Ama.", "nbest": 3, "model": "two"})[1]
    assert len(answer["translations"]) == 3 and "give each sentence a line" in answer["remarks"][0]
    # numbers that are not finite are null
    found = expected[0]
    found.record.attention[0, 0], found.record.scores[0] = np.nan, float("-inf")
    monkeypatch.setattr(type(translator), "__call__", lambda *_: [found._replace(score=float("nan"))])
    one = post(port, {"text": "ama bel"})[1]["translations"][0]
    assert one["score"] is None and one["scores"][0] is None and one["scores"][1] < 0
    assert one["attention"][0][0] is None and one["words"]["attention"][0][0] is None and one["attention"][0][1] >= 0


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({"text": "ama " * 999}, "the sentence is too long: 999 subwords"),
        ({"words": "ama"}, 'send JSON such as {"text": "a sentence"}, with "nbest" for several translations'),
        ({"text": 5}, "text: must be a text"),
        ({"text": "ama", "nbest": True}, "nbest: must be a number"),
        ({"text": "ama", "model": "three"}, "model 'three': must be one of one, two"),
        ("ama", "send JSON"),
        ({"text": "a \ud800"}, "send JSON"),
        (b"{", "send JSON"),
        (b"[" * 9999, "send JSON"),
        (b"x" * (MOST_BYTES + 1), f"a request must have a Content-Length of at most {MOST_BYTES} bytes"),
    ],
)
def test_mistakes_are_answered(port, question, message):
    status, answer = post(port, question)
    assert status == 400 and message in answer["error"] and list(answer) == ["error"]


@pytest.mark.parametrize("length", ["-1", "1e3", "", "9" * 5000])
def test_the_length_of_a_request_is_a_number(port, length):
    assert post(port, b"", **{"Content-Length": length})[0] == 400


def test_a_request_that_is_cut_short(port, monkeypatch):
    monkeypatch.setattr(_Handler, "timeout", 0.2)
    status, answer = post(port, b"{", **{"Content-Length": "99"})
    assert (status, answer["error"]) == (400, "the request was cut short")


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHo"])
def test_a_reader_who_leaves_is_no_fault(translator, sent, capsys):
    with serving({"one": translator}) as port, socket.create_connection((HOST, port)) as reader:
        reader.sendall(sent)
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # closing resets the connection
        reader.close()
        assert ask(port, "GET", "/")[0] == 200
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "LocalHost:8000"}, 200),
        ({"Host": "127.0.0.1:8000", "Origin": "http://127.0.0.1:8000"}, 200),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "[::1"}, 403),
        ({"Host": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_only_this_machine_is_answered(port, headers, status):
    """A page of somewhere else, whose name was made to point here, sends its own name as host or origin."""
    assert ask(port, "GET", "/", **headers)[0] == status
    found, answer = post(port, {"text": "ama"}, **headers)
    assert found == status and list(answer) == (["error"] if status == 403 else ["translations", "remarks"])


def test_the_page_loads_nothing_from_elsewhere(port):
    status, headers, text = ask(port, "GET", "/")
    assert status == 200 and headers["Cache-Control"] == "no-store"
    assert "default-src 'none'" in text and "connect-src 'self'" in text and "a \\u003cnote\\u003e" in text
    assert not re.search(r"(src|href)=\"(?!data:)", text)
    others = (("GET", "/translate"), ("POST", "/"), ("GET", "/x"), ("GET", "x://[/"))
    assert [ask(port, *one)[0] for one in others] == [404] * 4
    status, headers, text = ask(port, "DELETE", "/")
    assert status == 501 and headers["Content-Type"] == "application/json" and "DELETE" in json.loads(text)["error"]


def test_mistakes_are_named(tiny_data, checkpoint, tmp_path):
    """Before a model is loaded where that can be."""
    given = ["serve", str(tiny_data), "--port", "0", "--cpu"]
    (tmp_path / "codes").write_text("#version: 0.2\na b c d\n")
    with Server(0) as other:
        port = str(other.server_port)
        for options, message in [
            (["--nbest", "6"], "--nbest 6: must be at most --beam 5"),
            (["--bpe-codes", "gone"], "--bpe-codes gone: there is no such file"),
            (["--bpe-codes", str(tmp_path / "codes")], "codes: must be a file of subword-nmt"),
            (["--sentencepiece-model", str(tmp_path / "codes")], "codes: must be a file of SentencePiece"),
            (["--model-overrides", "x"], "--model-overrides x: must be a dictionary"),
            (["--path", "gone.pt", "--port", port], f"^--port {port}: cannot be opened: Address already in use"),
            (["--path", "gone.pt", "--port", "70000"], "--port 70000: cannot be opened: must be from 0 to 65535"),
        ]:
            with pytest.raises(OptionError, match=message):
                main([*given, *([] if "--path" in options else ["--path", str(checkpoint)]), *options])


def test_it_listens_to_this_machine_alone():
    with Server(0) as server:
        assert server.server_address[0] == "127.0.0.1"


def test_a_model_that_fails(translator, monkeypatch):
    monkeypatch.setattr(translator, "_search", lambda ids: 1 / 0)
    with serving({"one": translator}) as port:
        status, answer = post(port, {"text": "ama"})
    assert status == 500 and answer["error"].startswith("the model has failed: ZeroDivisionError;")


def test_one_sentence_at_a_time(translator, monkeypatch):
    """Each request has a thread of its own."""
    inside, most, step = [], [], translator.task.inference_step

    def slow(*given):
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.1)
        found = step(*given)
        inside.pop()
        return found

    monkeypatch.setattr(translator.task, "inference_step", slow)
    threads = [threading.Thread(target=translator, args=("ama bel",)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]
