"""The page of classified documents, in a browser: the keyboard, search, weights."""

import browser
import pytest
from records_for_tests import draw_twelve


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    yield from browser.pages(tmp_path_factory)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("documents") / "page.html"
    draw_twelve(path)
    return path.as_uri()


def test_keyboard(pages, made):
    pages.resize(1280, 900)
    pages.open(made)
    marked = "return document.querySelector('nav a[aria-current]').hash"
    assert pages.script(marked) == "#document-1"
    pages.press("j", "j")
    assert pages.script(marked) == "#document-3" and pages.script("return location.hash") == "#document-3"
    top = pages.script("return document.querySelector('#document-3').getBoundingClientRect().top")
    assert 0 <= top < 200
    pages.press("k", "\ue014", "\ue014")  # the second word of document 2
    active = pages.one(".word.active")
    assert active.text.startswith("plot") and pages.script("return document.activeElement") == active
    assert pages.texts("#readout") == [
        "plot: weight 0.01, in sentence 1 of weight 0.80 (2.40 times uniform); together 0.15 times uniform"
    ]
    pages.press("\ue012", "\ue012")
    assert pages.one(".word.active").text.startswith("the")
    pages.press("\ue00c")
    assert not pages.shown("#readout") and not pages.all(".word.active")


def test_weights_are_read_without_pointing(pages, made):
    pages.resize(1280, 900)
    pages.open(made)
    assert not pages.shown(".word small")
    assert [one.text.split()[-1] for one in pages.shown("#document-1 .share")] == ["0.80", "0.10", "0.10"]
    pages.one("#values").click()
    shown = pages.shown("#document-1 .word small")
    assert len(shown) == 17 and [one.text for one in shown[8:10]] == ["0.01", "0.91"]
    pages.all("#document-2 .word")[9].click()
    assert pages.texts("#readout")[0].startswith("wonder: weight 0.91, ")


def test_search_and_wrong_predictions(pages, made):
    pages.resize(1280, 900)
    pages.open(made)
    assert pages.texts("#count") == ["12 documents"]
    pages.press("/")
    pages.press(*"dreadf")
    assert pages.texts("#count") == ["1 of 12 documents, 1 word found"]
    assert [one.text for one in pages.shown("nav a")] == ["3 pos wrong"] and len(pages.shown("article")) == 1
    assert pages.texts(".word.hit small") == ["0.25"]
    pages.press("\ue007")  # Enter leads to the word
    assert pages.script("return document.activeElement.classList.contains('hit')")
    pages.press("\ue00c")
    assert len(pages.shown("article")) == 12 and not pages.all(".hit")
    pages.one("#wrong").click()
    assert [one.text for one in pages.shown("nav a")] == ["3 pos wrong"]
    pages.one("#wrong").click()
    pages.one("#next").click()
    assert pages.script("return location.hash") == "#document-2"
