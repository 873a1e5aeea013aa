"""Documents as rows: their shades, what the page says of them, and the page in a browser."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from records_for_tests import draw_twelve

from fairseq_attn_plugin.analysis.drawing.document_page import SCALE, draw_documents, shade, shaded
from fairseq_attn_plugin.analysis.inference.classification import Classified


def document(sentences, shares=None, gold="neg", name="7", word_weights=None):
    word_weights = word_weights or [[1 / max(len(words), 1)] * len(words) for words in sentences]
    return Classified(name, "pos", 0.75, {"pos": 0.75, "neg": 0.25}, gold, sentences, word_weights, shares)


def test_key_is_that_of_the_model(tmp_path):
    hierarchical, flat = document([["a"]], [1.0]), document([["a"]])
    root = "weight of the word, times the square root of the weight of its sentence"
    draw_documents([hierarchical], tmp_path / "h.html")
    draw_documents([flat], tmp_path / "f.html")
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("h.html", "f.html")]
    assert root in pages[0] and "weight of the sentence" in pages[0]
    assert "weight of the word in the document" in pages[1] and root not in pages[1]
    assert "sentence" not in pages[1].split("<h2")[1].split("<script")[0]


def test_shades_compare_with_uniform_weights():
    """Of four words, 0.97 is 3.88 times uniform; of two sentences, 0.8 is 1.6 times; together 3.88 sqrt(1.6)."""
    words = [[0.97, 0.01, 0.01, 0.01], [0.25] * 4]
    first, second = shaded(document([list("abcd")] * 2, [0.8, 0.2], word_weights=words))
    assert first.times == pytest.approx(1.6) and second.times == pytest.approx(0.4)
    assert first.word_times[0] == pytest.approx(3.88 * math.sqrt(1.6))
    assert shade(first.times) == pytest.approx(math.log(1.6) / math.log(8)) and shade(second.times) == 0
    assert second.word_times == pytest.approx([math.sqrt(0.4)] * 4) and shade(math.sqrt(0.4)) == 0
    # a flat model: uniform is 1 of all words of the document
    first, second = shaded(document([["a", "b"], list("cdefgh")], word_weights=[[0.5, 0.5], [0.0] * 6]))
    assert first.word_times == [4, 4] and shade(4) == pytest.approx(2 / 3) and first.times is None
    # weights of structured attention sum to two, those of sigmoid to any number; a sentence may have none
    first, second = shaded(document([list("abcd"), ["e"]], [1.6, 0.4], word_weights=[[0.5] * 4, [0.0]]))
    assert (first.times, second.times, second.word_times) == (pytest.approx(1.6), pytest.approx(0.4), [0])
    assert first.word_times == pytest.approx([math.sqrt(1.6)] * 4)


def test_eight_times_uniform_is_the_full_colour():
    (row,) = shaded(document([["a"] * 20], word_weights=[[0.4, 0.5, *[0.1 / 18] * 18]]))
    assert [shade(times) for times in row.word_times[:3]] == [1, 1, 0]


def test_page_tells_the_weights_and_is_escaped_and_self_contained(tmp_path):
    """Sentence 1: 1.28 times uniform; "b": 1.5 times uniform in its sentence, sqrt(1.28) 1.5 = 1.70 together."""
    parts = document([["a", "b"], ["c"]], [0.64, 0.36], word_weights=[[0.25, 0.75], [1.0]])
    nasty = document([["<script>alert(1)</script>", '"quoted"', "עברית", "中文"]], [1.0], name="<7>")
    cut = replace(document([["a", "b"], ["c"]], [0.5, 0.5]), cut=True)
    draw_documents([parts, nasty, cut], tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert '<span class="word" style="--shade:0.254" data-times="1.70">b<small>0.75</small></span>' in page
    assert 'data-times="1.28"' in page and SCALE in page and "עברית" in page
    assert "label: neg, prediction: pos (75.0 %)" in page and "&lt;7&gt;" in page
    assert page.count("(75.0 %)") == 3 and page.count("(75.0 %), cut after 3 words</h2>") == 1
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert not re.search(r'(src|href)=(?!"data:|"#document-)|url\(|@import', page)
    assert page.count("<script") == 1 and "script-src 'sha256-" in page


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
    assert 0 <= pages.script("return document.querySelector('#document-3').getBoundingClientRect().top") < 200
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
