"""The pages of reports, comparisons and documents, in a browser: both colour schemes, both widths, the explorer."""

from functools import partial

import browser
import numpy as np
import pytest
from records_for_tests import draw_twelve, write_records

from fairseq_attn_plugin.analysis.drawing.heatmaps import Panel, heatmaps
from fairseq_attn_plugin.analysis.outputs.comparison import as_html, compare
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.analysis.report.sections import sentence_link
from fairseq_attn_plugin.analysis.web.explore import explore

pytest.importorskip("matplotlib")

STYLES = "const one = getComputedStyle(document.body); return [one.backgroundColor, one.color];"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A report with everything that can be too wide, its explorer, and a comparison."""
    out = tmp_path_factory.mktemp("report")
    explore([str(write_records(out / "soft.jsonl"))], out / "explore.html")
    document = Document("A report on systems")
    document.heading("Systems")
    document.paragraph("BLEU: nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|" + "tok:none|" * 30)
    document.table([f"column {number}" for number in range(20)], [["a", *[12345.678] * 19]])
    document.table(
        ["sentence 1", "text"], [["source", "w" * 200], ["reference", "many words " * 40], ["soft", "הוא כאן!"]]
    )
    document.code("fairseq-attn report " + "systems " * 40)
    rng = np.random.default_rng(1)
    panels = [Panel(rng.dirichlet(np.ones(9), 8), list("abcdefghi"), list("stuvwxyz"), name) for name in "ABC"]
    document.picture(out / "heat.png", "Sentence 2.", partial(heatmaps, panels), sentence_link(out, 2))
    document.link(out / "explore.html", "Explore")
    (out / "report.html").write_text(document.html(out), encoding="utf-8")
    outputs = {"soft": ["a house " * 30, "the door"], "adm": ["a home", "this door"]}
    found = compare(outputs, ["a house", "the door"], ["ein haus", "die tür"])
    (out / "compare.html").write_text(as_html(found), encoding="utf-8")
    draw_twelve(out / "documents.html")
    return out


@pytest.mark.parametrize(("width", "scheme"), browser.VIEWS)
@pytest.mark.parametrize("name", ["report", "compare", "documents"])
def test_both_schemes_and_widths(pages, folder, name, width, scheme):
    browser.look(pages, width, scheme)
    address = (folder / f"{name}.html").as_uri()
    pages.open(address)
    assert not pages.scrolls_sideways() and not pages.problems()
    assert pages.requests() == [address]
    paper, ink = (browser.luminance(browser.rgba(text)[:3]) for text in pages.script(STYLES))
    assert (paper > 0.8 and ink < 0.1) if scheme == "light" else (paper < 0.1 and ink > 0.7)
    words = ()
    if name == "documents":
        # the deepest colour is on the page: more than 8 times uniform
        assert pages.script("return document.querySelectorAll('article .word[style=\"--shade:1.000\"]').length") == 12
        pages.press("v")
        words = ("article .word", "article .word small", ".ramp.words b", ".share small")
    for selector in ("p", "td", "th", "a", "h1", "h2", "figcaption", ".muted", *words):
        assert min(pages.contrasts(selector), default=21) >= 4.5, selector


@pytest.mark.parametrize("name", ["report", "compare", "documents"])
def test_axe_finds_nothing(pages, folder, name, view):
    pages.open((folder / f"{name}.html").as_uri())
    assert browser.violations(pages) == []
    if name == "documents":
        pages.press("v", "j", "\ue014")
        assert browser.violations(pages) == []


def test_sentences_from_right_to_left(pages, folder):
    pages.open((folder / "report.html").as_uri())
    directions = "return [...document.querySelectorAll('td:last-child')].map((one) => getComputedStyle(one).direction)"
    assert pages.script(directions) == ["ltr"] * 3 + ["rtl"]


def test_wide_boxes_scroll_by_keyboard(pages, folder):
    pages.resize(390, 900)
    pages.open((folder / "report.html").as_uri())
    pages.wait("return document.querySelector('.table').tabIndex === 0")
    pages.press(browser.TAB)
    assert pages.script("return document.activeElement.getAttribute('aria-label')") == "column 0 (scrolls sideways)"
    pages.press("\ue014", "\ue014")
    pages.wait("return document.activeElement.scrollLeft > 0")
    # a box that shows everything is no stop
    pages.resize(1280, 900)
    pages.wait("return document.querySelectorAll('figure .scroll[tabindex]').length === 0")


def test_heatmap_leads_to_its_sentence(pages, folder):
    pages.resize(1280, 900)
    pages.open((folder / "report.html").as_uri())
    for link in range(2):  # the picture and the words below it
        pages.open((folder / "report.html").as_uri())
        pages.script("document.querySelectorAll('figure a')[arguments[0]].focus()", link)
        pages.press(browser.ENTER)
        pages.wait("return location.pathname.endsWith('explore.html') && document.readyState === 'complete'")
        assert pages.texts("#position b") == ["Sentence 2"]
