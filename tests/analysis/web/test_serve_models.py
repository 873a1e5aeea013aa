"""fairseq-attn serve with several models, and its page in a browser: examples, addresses, and axe-core."""

import re
import signal
from types import SimpleNamespace

import browser
import pytest
from test_serve import serving

from fairseq_attn_plugin.analysis.inference.translator import Translator
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.commands import serve
from fairseq_attn_plugin.errors import OptionError

from cli import start_cli


@pytest.fixture(scope="module")
def served(zoo):
    """The address of a server with two models."""
    paths = [zoo("reversal").last, f"density <i>={zoo('lstm_adm').last}"]
    examples = [f"--example={text}" for text in ("ama bel cor dun", "bel <b>cor</b> ama", "dun ama bel cor ama")]
    server = start_cli("fairseq-attn", "serve", *paths, *examples, "--port", "0", "--cpu")
    try:
        yield server.stdout.readline().split()[0]
        server.send_signal(signal.SIGINT)
        rest = server.communicate(timeout=60)[0]
        assert server.returncode == 0 and "Traceback" not in rest
    finally:
        server.kill()
        server.wait()


def done(pages):
    pages.wait("return !document.querySelector('#state').textContent && !document.querySelector('#results').hidden")


def test_mistakes_are_named(tiny_data, zoo):
    soft = str(zoo("reversal").last)
    for options, message in [
        ([str(tiny_data), str(tiny_data), "--path", soft], "with --path, give one folder, of fairseq-preprocess"),
        ([str(tiny_data)], "is no model folder or checkpoint; give the checkpoint by --path"),
    ]:
        with pytest.raises(OptionError, match=message):
            main(["serve", "--cpu", "--port", "0", *options])


def test_models_of_different_directions(zoo, monkeypatch):
    fakes = iter([SimpleNamespace(languages=("xx", "yy")), SimpleNamespace(languages=("yy", "xx"))])
    monkeypatch.setattr(Translator, "of_options", lambda args: next(fakes))
    soft = str(zoo("reversal").last)
    with pytest.raises(OptionError, match="^b: is of yy-xx, a of xx-yy; a page shows one direction"):
        main(["serve", f"a={soft}", f"b={soft}", "--port", "0"])


def test_labels_are_short():
    paths = ["a/soft/checkpoint_best.pt", "b/adm/x.pt:b/adm/y.pt", "out/model", "x.pt"]
    assert list(map(serve._short_name, paths)) == ["soft", "adm", "model", "x.pt"]


def test_two_models_side_by_side(pages, served):
    pages.open(served)
    examples = pages.texts("#examples button")
    assert len(examples) == 3 and "Type ordinary text" in pages.one("#reading").text
    pages.all("#examples button")[1].click()
    done(pages)
    assert pages.one("#text").get_attribute("value") == examples[1]
    assert len(pages.texts(".card h2")) == 2 and pages.texts(".card h2")[1] == "density <i>"
    assert pages.texts(".word.unknown bdi") == ["<b>cor</b>"] * 2
    assert pages.texts("#hypotheses legend") == pages.texts(".card h2")
    first, second = pages.all(".card")
    assert first.location["y"] == second.location["y"] and first.location["x"] < second.location["x"]
    assert all(re.fullmatch(r"score \u2212\d+\.\d\d", text) for text in pages.texts(".nbest .score"))
    # a word of the source is active in both
    pages.hover(pages.one(".row.source .word"))
    assert len(set(pages.texts(".word.active bdi"))) == 1 and len(pages.all(".word.active")) == 2
    assert not pages.problems() and set(pages.requests()) == {served + "/", served + "/translate"}


def test_the_address_is_enough_to_see_a_translation_again(pages, served):
    pages.open(served)
    pages.press(*"ama bel cor dun", browser.ENTER)  # the field has the focus
    done(pages)
    best = pages.texts(".nbest label span:first-child")
    pages.open(pages.script("return location.href"))
    done(pages)
    assert pages.texts(".nbest label span:first-child") == best and not pages.problems()
    # a mistake of all models is said once
    pages.one("#text").send_keys(" amu" * 1300 + "\n")
    pages.wait("return !document.querySelector('#message').hidden")
    assert pages.one("#message").text.startswith("The sentence is too long: ")
    assert not pages.one("#results").is_displayed()


def test_the_page_says_where_punctuation_must_stand_apart(pages, tiny_data, zoo, tmp_path_factory):
    translator = Translator(str(tiny_data), str(zoo("reversal").last), beam=2, cpu=True)
    translator.task.source_dictionary.add_symbol(".")
    assert translator.separates
    with serving({"one": translator}, examples=["<b>x</b>"]) as port:
        pages.open(f"http://127.0.0.1:{port}")
        assert "Type blanks around punctuation" in pages.one("#reading").text
        assert pages.texts("#examples button") == ["<b>x</b>"] and not pages.problems()


def test_axe_finds_no_violation(pages, served, view):
    pages.open(served)
    assert browser.violations(pages) == []
    pages.open(served + "#text=ama+<b>+cor+dun+esk+fim+gol+hus+ilo")
    done(pages)
    pages.all(".word[data-side=target]")[1].click()
    pages.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert browser.violations(pages) == []
    assert pages.script("return document.documentElement.scrollWidth") <= view[0]
    pages.open(served + "#text=+")
    pages.one("#send").click()
    pages.wait("return !document.querySelector('#message').hidden")
    assert browser.violations(pages) == []
