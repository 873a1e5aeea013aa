"""fairseq-attn serve with several models, and its page in a browser: examples, addresses, and axe-core."""

import contextlib
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
def paths(zoo):
    return [str(zoo("reversal").last), f"density <i>={zoo('lstm_adm').last}"]


@pytest.fixture(scope="module")
def served(paths):
    """The address of a server with two models."""
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


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    yield from browser.pages(tmp_path_factory)


def done(page):
    page.wait("return !document.querySelector('#state').textContent && !document.querySelector('#results').hidden")


def test_mistakes_are_named(tiny_data, zoo):
    given = ["serve", "--cpu", "--port", "0"]
    soft = str(zoo("reversal").last)
    for options, message in [
        ([str(tiny_data), str(tiny_data), "--path", soft], "with --path, give one folder, of fairseq-preprocess"),
        ([str(tiny_data)], "is no model folder or checkpoint; give the checkpoint by --path"),
    ]:
        with pytest.raises(OptionError, match=message):
            main([*given, *options])


def test_models_of_different_directions(zoo, monkeypatch):
    fakes = iter([SimpleNamespace(languages=("xx", "yy")), SimpleNamespace(languages=("yy", "xx"))])
    monkeypatch.setattr(Translator, "of_options", lambda args: next(fakes))
    soft = str(zoo("reversal").last)
    with pytest.raises(OptionError, match="^b: is of yy-xx, a of xx-yy; a page shows one direction"):
        main(["serve", f"a={soft}", f"b={soft}", "--port", "0"])


def test_labels_are_short():
    paths = ["a/soft/checkpoint_best.pt", "b/adm/x.pt:b/adm/y.pt", "out/model", "x.pt"]
    assert list(map(serve._short_name, paths)) == ["soft", "adm", "model", "x.pt"]


def test_two_models_side_by_side(page, served):
    page.open(served)
    examples = page.texts("#examples button")
    assert len(examples) == 3 and "Type ordinary text" in page.one("#reading").text
    page.all("#examples button")[1].click()
    done(page)
    assert page.one("#text").get_attribute("value") == examples[1]
    assert len(page.texts(".card h2")) == 2 and page.texts(".card h2")[1] == "density <i>"
    assert page.texts(".word.unknown bdi") == ["<b>cor</b>"] * 2
    assert page.texts("#hypotheses legend") == page.texts(".card h2")
    first, second = page.all(".card")
    assert first.location["y"] == second.location["y"] and first.location["x"] < second.location["x"]
    assert all(re.fullmatch(r"score \u2212\d+\.\d\d", text) for text in page.texts(".nbest .score"))
    # a word of the source is active in both
    page.hover(page.one(".row.source .word"))
    assert len(set(page.texts(".word.active bdi"))) == 1 and len(page.all(".word.active")) == 2
    assert not page.problems() and set(page.requests()) == {served + "/", served + "/translate"}


def test_the_address_is_enough_to_see_a_translation_again(page, served):
    page.open(served)
    page.press(*"ama bel cor dun", browser.ENTER)  # the field has the focus
    done(page)
    best = page.texts(".nbest label span:first-child")
    page.open(page.script("return location.href"))
    done(page)
    assert page.texts(".nbest label span:first-child") == best and not page.problems()
    # a mistake of all models is said once
    page.one("#text").send_keys(" amu" * 1300 + "\n")
    page.wait("return !document.querySelector('#message').hidden")
    assert page.one("#message").text.startswith("The sentence is too long: ")
    assert not page.one("#results").is_displayed()


def test_the_page_says_where_punctuation_must_stand_apart(page, tiny_data, zoo, tmp_path_factory):
    translator = Translator(str(tiny_data), str(zoo("reversal").last), beam=2, cpu=True)
    translator.task.source_dictionary.add_symbol(".")
    assert translator.separates
    with serving({"one": translator}, examples=["<b>x</b>"]) as port:
        page.open(f"http://127.0.0.1:{port}")
        assert "Type blanks around punctuation" in page.one("#reading").text
        assert page.texts("#examples button") == ["<b>x</b>"] and not page.problems()


@pytest.mark.parametrize(("width", "mode"), browser.VIEWS)
def test_axe_finds_no_violation(page, served, width, mode):
    browser.script()
    with contextlib.ExitStack() as stack:
        stack.callback(page.driver.execute_cdp_cmd, "Emulation.clearDeviceMetricsOverride", {})
        stack.callback(page.driver.execute_cdp_cmd, "Emulation.setEmulatedMedia", {"features": []})
        browser.look(page, width, mode)
        page.open(served)
        assert browser.violations(page) == []
        page.open(served + "#text=ama+<b>+cor+dun+esk+fim+gol+hus+ilo")
        done(page)
        page.all(".word[data-side=target]")[1].click()
        page.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        assert browser.violations(page) == []
        assert page.script("return document.documentElement.scrollWidth") <= width
        page.open(served + "#text=+")
        page.one("#send").click()
        page.wait("return !document.querySelector('#message').hidden")
        assert browser.violations(page) == []
