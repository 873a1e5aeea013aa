"""Pictures of documents: their size, fonts, key, and what they say."""

from __future__ import annotations

import math
import re
import struct
import warnings

import pytest

from fairseq_attn_plugin.analysis.drawing import canvas
from fairseq_attn_plugin.analysis.drawing.document_rows import SCALE, shaded
from fairseq_attn_plugin.analysis.drawing.documents import draw_documents
from fairseq_attn_plugin.analysis.inference.classification import Classified

pytest.importorskip("matplotlib")


def document(sentences, shares=None, gold="neg", name="7", word_weights=None):
    word_weights = word_weights or [[1 / max(len(words), 1)] * len(words) for words in sentences]
    return Classified(name, "pos", 0.75, {"pos": 0.75, "neg": 0.25}, gold, sentences, word_weights, shares)


def size(path):
    return struct.unpack(">II", path.read_bytes()[16:24])


def texts(path, documents, **options):
    """The texts of an SVG, which stay text, in their order."""
    draw_documents(documents, path, **options)
    found = re.findall(r"<text [^>]*>([^<]*)</text>", path.read_text(encoding="utf-8"))
    return [text.replace("&lt;", "<").replace("&amp;", "&") for text in found]


def long_document(number, sentences=400, words=5):
    """Its weights are a permutation."""
    shares = [((k * 37 + number) % sentences + 1) / (sentences * (sentences + 1) / 2) for k in range(sentences)]
    return document([[f"s{k}"] + ["letters" * 6] * (words - 1) for k in range(sentences)], shares)


def test_long_documents_make_a_picture_that_programs_can_read(tmp_path):
    draw_documents([long_document(k) for k in range(5)], tmp_path / "p.png")
    width, height = size(tmp_path / "p.png")
    assert 1000 < width < 2**11 and 10000 < height < 2**14


def test_weightiest_sentences_are_shown_and_the_others_counted(tmp_path):
    found = texts(tmp_path / "p.svg", [long_document(0)])
    weights = long_document(0).sentence_weights
    kept = [int(text[1:]) for text in found if re.fullmatch(r"s\d+", text)]
    assert kept == sorted(kept) and 50 < len(kept) < 400
    assert set(kept) == set(sorted(range(400), key=lambda k: -weights[k])[: len(kept)])
    # where they are: what is shown and what is counted make the whole document, in order
    place = 0
    for text in found:
        left_out = re.fullmatch(r"… (\d+) sentences? left out", text)
        if left_out:
            place += int(left_out.group(1))
        elif re.fullmatch(r"s\d+", text):
            assert int(text[1:]) == place
            place += 1
    assert place == 400


def test_lines_that_short_documents_leave_go_to_long_ones(tmp_path):
    short = [document([["short"]], [1.0])] * 4

    def kept(documents):
        return sum(bool(re.fullmatch(r"s\d+", text)) for text in texts(tmp_path / "p.svg", documents))

    assert kept([long_document(0), *short]) > 0.9 * kept([long_document(0)])


def test_sentence_longer_than_the_picture_is_cut(tmp_path):
    found = texts(tmp_path / "p.svg", [document([["first"], ["word" * 12] * 2000], [0.1, 0.9])])
    assert "first" not in found and "… 1 sentence left out" in found
    assert found[-1] == "word" * 12 + " …" and 380 < found.count("word" * 12) < 2000


def test_many_documents_are_counted(tmp_path):
    draw_documents([document([["a"], ["b"]], [0.5, 0.5])] * 300, tmp_path / "p.png")
    assert size(tmp_path / "p.png")[1] < 2**14
    assert "… 221 documents left out" in texts(tmp_path / "p.svg", [document([["a"]], [1.0])] * 300)


def test_words_and_names_wider_than_the_picture_are_shortened(tmp_path):
    long = document([["a" * 3000, "b" * 100, "中" * 200, "end"]], [1.0], name="n" * 3000)
    draw_documents([long], tmp_path / "p.png")
    assert size(tmp_path / "p.png")[0] < 1400
    found = texts(tmp_path / "p.svg", [long])
    assert any(re.fullmatch("a{50,200}…", text) for text in found) and "end" in found and "b" * 100 not in found
    assert any(re.fullmatch(r"n+…: label: neg, prediction: pos \(75\.0 %\)", text) for text in found)


def test_options_limit_the_sentences_of_a_picture(tmp_path):
    five = document([[f"s{k}"] for k in range(5)], [0.1, 0.3, 0.05, 0.35, 0.2])
    found = texts(tmp_path / "p.svg", [five], most=2)
    notes = "… 1 sentence left out"
    assert found[-5:] == [notes, "s1", notes, "s3", notes]


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_characters_that_no_font_has_are_no_warning(suffix, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw_documents([document([["中文", "\U0001f9ff", "\U00012000"]], [1.0], name="文")], tmp_path / f"p.{suffix}")


def test_fonts_are_those_of_the_fallback_list(tmp_path, monkeypatch):
    monkeypatch.setattr(canvas, "families", lambda: ["DejaVu Sans", "DejaVu Serif"])
    draw_documents([document([["中文"]], [1.0])], tmp_path / "p.svg")
    assert "DejaVu Serif" in (tmp_path / "p.svg").read_text(encoding="utf-8")


def test_words_are_shown_as_they_are(tmp_path):
    words = ["$x$", "\\$", "a\\b$c", "\\frac{$", "$$", "a_b^c", "100%"]
    assert texts(tmp_path / "p.svg", [document([words], [1.0])])[-len(words) :] == words


def test_key_is_that_of_the_model(tmp_path):
    hierarchical, flat = document([["a"]], [1.0]), document([["a"]])
    root = "weight of the word, times the square root of the weight of its sentence"
    assert texts(tmp_path / "p.svg", [hierarchical])[:2] == ["weight of the sentence", root]
    assert texts(tmp_path / "p.svg", [flat])[0] == "weight of the word in the document"
    assert "weight of the sentence" not in texts(tmp_path / "p.svg", [flat])
    draw_documents([hierarchical], tmp_path / "h.html")
    draw_documents([flat], tmp_path / "f.html")
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("h.html", "f.html")]
    assert root in pages[0] and "weight of the sentence" in pages[0]
    assert (
        "weight of the word in the document" in pages[1]
        and "sentence" not in pages[1].split("<h2")[1].split("<script")[0]
    )
    assert "square root" not in pages[1] and "weight of the sentence" not in pages[1]


def test_titles_of_wrong_predictions_are_red(tmp_path):
    draw_documents(
        [document([["a"]], gold="neg", name="bad"), document([["a"]], gold="pos", name="good")], tmp_path / "p.svg"
    )
    styles = dict(
        re.findall(r'<text style="([^"]*)"[^>]*>(bad|good): ', (tmp_path / "p.svg").read_text(encoding="utf-8"))[::-1]
    )
    colours = {name: "#b3261e" in style for style, name in styles.items()}
    assert colours == {"bad": True, "good": False}


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


def test_page_tells_the_weights(tmp_path):
    """Sentence 1: 1.28 times uniform; "b": 1.5 times uniform in its sentence, sqrt(1.28) 1.5 = 1.70 together."""
    parts = document([["a", "b"], ["c"]], [0.64, 0.36], word_weights=[[0.25, 0.75], [1.0]])
    draw_documents([parts], tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert '<span class="word" style="--shade:0.254" data-times="1.70">b<small>0.75</small></span>' in page
    assert 'data-times="1.28"' in page and SCALE in page
    assert "<td>b 0.75, a 0.25</td>" in page
    draw_documents([parts], tmp_path / "p.html", most=1)
    assert "… 1 sentence left out" in (tmp_path / "p.html").read_text(encoding="utf-8")
