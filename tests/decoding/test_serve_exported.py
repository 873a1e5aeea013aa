"""fairseq-attn serve with an exported model answers as with its checkpoint."""

import subprocess
import sys

import numpy as np
import pytest

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.analysis.inference.translation import ExportedTranslator, is_exported
from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.errors import OptionError

from cli import REPO

testclient = pytest.importorskip("starlette.testclient", reason="NO TEST OF THE SERVER: starlette or httpx is missing")
pytest.importorskip("onnxruntime", reason="NO TEST OF EXPORTED MODELS: onnxruntime is missing")
pytest.importorskip("onnx", reason="NO TEST OF EXPORTED MODELS: onnx is missing")


@pytest.fixture(scope="module")
def folder(zoo, tmp_path_factory):
    folder = tmp_path_factory.mktemp("exported") / "it"
    cli.main(["export", str(zoo("reversal").last), "--to", str(folder), "--tokenizer", "moses"])
    return str(folder)


@pytest.fixture(scope="module")
def both(folder, zoo, tiny_data):
    with_torch = Translator(str(tiny_data), str(zoo("reversal").last), beam=3, tokenizer="moses", cpu=True)
    return ExportedTranslator(folder, beam=3), with_torch


def test_translations_are_those_of_the_checkpoint(both):
    mine, theirs = both
    assert (mine.languages, mine.subwords, mine.beam) == (theirs.languages, theirs.subwords, 3)
    assert (mine.segments, mine.lowercase) == (theirs.segments, theirs.lowercase)
    for text in ("ama bel\x00cor", "AMA <zzz> dun &"):
        for one, other in zip(mine(text, 3), theirs(text, 3)):
            assert (one.text, one.unknown) == (other.text, other.unknown)
            assert (one.source_words, one.target_words) == (other.source_words, other.target_words)
            assert one.score == pytest.approx(other.score, abs=1e-4)
            assert one.record.scores == pytest.approx(other.record.scores, abs=1e-3)
            np.testing.assert_allclose(one.record.attention, other.record.attention, atol=1e-5)


def test_answers_and_mistakes_are_the_same(both):
    from fairseq_attn_plugin.analysis.web.server import application

    clients = [testclient.TestClient(application(one, nbest=2), base_url="http://127.0.0.1:8000") for one in both]
    for question in ({"text": "ama bel"}, {"text": " "}, {"text": "ama", "nbest": 9}, {"text": "x" * 5001}):
        mine, theirs = (client.post("/translate", json=question) for client in clients)
        assert mine.status_code == theirs.status_code and list(mine.json()) == list(theirs.json())
        assert mine.json().get("error") == theirs.json().get("error")
    answer = clients[0].post("/translate", json={"text": "ama " * 1100})
    assert answer.json()["error"] == "the sentence is too long: 1100 subwords, the model takes at most 1023"
    assert clients[0].get("/").status_code == 200


WITHOUT = """
import importlib.util, sys
find = importlib.util.find_spec
sys.modules["torch"] = None
if {bare}:
    importlib.util.find_spec = lambda name, *rest: None if name == "fairseq" else find(name, *rest)
from fairseq_attn_plugin import cli
cli.main({words})
assert "fairseq" not in sys.modules
"""


@pytest.mark.parametrize("bare", [False, True])
def test_the_command_translates_without_torch(bare, folder, both):
    """Whether fairseq is installed or not."""
    code = WITHOUT.format(bare=bare, words=["translate", folder, "ama bel", "cor", "--beam", "3"])
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [both[0](text)[0].copied for text in ("ama bel", "cor")]


def test_mistakes_of_the_command(folder, tiny_data, tmp_path):
    assert is_exported(folder) and not is_exported(str(tiny_data))
    for options, message in [
        (
            [str(tiny_data)],
            "bin: is no model folder, checkpoint or exported model; give its checkpoint by --path",
        ),
        ([folder, "--bpe-codes", "codes"], "--bpe-codes codes: .* is an exported model, and this was settled when"),
        ([folder, "--coverage-penalty", "1"], "--coverage-penalty 1.0: .* is an exported model"),
        ([folder, "--model-overrides", "{1: 2}"], "--model-overrides .* is an exported model"),
        ([folder, "--case", "lower"], "--case lower: .* is an exported model"),
        ([folder, "--shortlist-size", "0"], "--shortlist-size 0: .* is an exported model"),
        ([folder, "--lenpen", "nan"], "--lenpen nan: must be a number of at most 50"),
        ([folder, "--nbest", "6"], "--nbest 6: must be at most --beam 5"),
    ]:
        with pytest.raises(OptionError, match=message):
            cli.main(["serve", *options, "--port", "0"])
    (tmp_path / "settings.json").write_text('{"format": "fairseq_attn_plugin translator 1"}')
    with pytest.raises(OptionError, match="settings.json: beam is missing: must be a whole number from 1 to 10000"):
        cli.main(["serve", str(tmp_path), "--port", "0"])
