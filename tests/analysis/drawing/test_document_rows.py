"""Documents as rows: their shades, and what the page says of them."""

from __future__ import annotations

import math
import re

import pytest

from fairseq_attn_plugin.analysis.drawing.document_page import SCALE, draw_documents, shaded
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
    assert first.shade == pytest.approx(math.log(1.6) / math.log(8)) and second.shade == 0
    assert second.word_times == pytest.approx([math.sqrt(0.4)] * 4) and second.shades == [0] * 4
    # a flat model: uniform is 1 of all words of the document
    first, second = shaded(document([["a", "b"], list("cdefgh")], word_weights=[[0.5, 0.5], [0.0] * 6]))
    assert first.word_times == [4, 4] and first.shades == pytest.approx([2 / 3] * 2) and first.times is None


@pytest.mark.parametrize("shares", [None, [0.251, 0.249, 0.2502, 0.2498]])
def test_uniform_weights_have_no_colour(shares):
    rows = shaded(document([["a", "b", "c"]] * 4, shares, word_weights=[[1 / 3 if shares else 1 / 12] * 3] * 4))
    assert max(one for row in rows for one in [row.shade or 0, *row.shades]) < 0.01


def test_eight_times_uniform_is_the_full_colour():
    (row,) = shaded(document([["a"] * 20], word_weights=[[0.4, 0.5, *[0.1 / 18] * 18]]))
    assert row.shades[:2] == [1, 1] and row.shades[2] == 0


def test_page_tells_the_weights_and_is_escaped_and_self_contained(tmp_path):
    """Sentence 1: 1.28 times uniform; "b": 1.5 times uniform in its sentence, sqrt(1.28) 1.5 = 1.70 together."""
    parts = document([["a", "b"], ["c"]], [0.64, 0.36], word_weights=[[0.25, 0.75], [1.0]])
    nasty = document([["<script>alert(1)</script>", '"quoted"', "עברית", "中文"]], [1.0], name="<7>")
    draw_documents([parts, nasty], tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert '<span class="word" style="--shade:0.254" data-times="1.70">b<small>0.75</small></span>' in page
    assert 'data-times="1.28"' in page and SCALE in page and "עברית" in page
    assert "label: neg, prediction: pos (75.0 %)" in page and "&lt;7&gt;" in page
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)" in page
    assert not re.search(r'(src|href)=(?!"data:|"#document-)|url\(|@import', page)
    assert page.count("<script") == 1 and "script-src 'sha256-" in page
