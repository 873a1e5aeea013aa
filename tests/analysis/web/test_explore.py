"""The page of fairseq-attn explore: what is in it, and what a reader sees in a browser; axe-core finds no violation."""

import json
import re
from pathlib import Path

import browser
import numpy as np
import pytest
from records_for_tests import PAIRS, diagonal, record, write_records

from fairseq_attn_plugin.analysis.records.files import open_records, open_systems
from fairseq_attn_plugin.analysis.web.explore import collect, encode, explore
from fairseq_attn_plugin.cli import main
from fairseq_attn_plugin.errors import OptionError

DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
NASTY = "</script><script>window.hit=1</script> <img/src=x/onerror=window.hit=2> &amp; <!-- \u2028 \"q\" 'x' $a_b$"


def decoded(greatest, text):
    """The inverse of encode, digit by digit."""
    return [(64 * DIGITS.index(a) + DIGITS.index(b)) * greatest / 4095 for a, b in zip(text[::2], text[1::2])]


# --- what is in the page ----------------------------------------------------------------------------------------------


def test_weights_are_kept_to_a_4095th_of_the_greatest():
    weights = np.random.default_rng(1).dirichlet([0.2] * 7, 5)
    weights[1] *= 1.9  # not all mechanisms' weights are at most 1
    greatest, text = encode(weights)
    assert greatest == pytest.approx(weights.max(), rel=1e-5) and len(text) == 2 * weights.size
    np.testing.assert_allclose(decoded(greatest, text), weights.ravel(), atol=greatest / 8190 + 1e-6)
    # 0, half and all of the greatest: 2048 = 32 * 64 + 0 ("gA"), 4095 = 63 * 64 + 63 ("//")
    assert encode(np.array([[0.0, 0.25, 0.5]])) == (0.5, "AAgA//")
    assert encode(np.array([[0.0, np.nan]])) == (0.0, "AAAA") and encode(np.zeros((0, 3))) == (0.0, "")


@pytest.mark.parametrize(("total", "heavy"), [(1.04, False), (1.06, True)])
def test_rows_that_sum_to_more_than_one_are_known(tmp_path, total, heavy):
    path = write_records(tmp_path / "some.jsonl", records=[record(0, "a b", "c", diagonal(1, 2) * total)])
    assert collect(open_systems([str(path)])).data["heavy"] is heavy


def test_systems_are_joined_by_the_number_of_the_sentence(tmp_path):
    whole = write_records(tmp_path / "soft.jsonl")
    other = [record(2, "guten tag", "hello"), record(0, *PAIRS[0])]  # in another order, without sentence 1
    part = write_records(tmp_path / "adm.jsonl", "adm", records=other, target="beam 5")
    data, cut, missing = collect(open_systems([str(whole), f"density={part}"]))
    assert [one["id"] for one in data["sentences"]] == [0, 1, 2] and not cut and not missing
    assert [model["label"] for model in data["models"]] == ["soft", "density"]
    first, second, third = data["sentences"]
    assert [view["target"] for view in first["views"]] == [0, 0] and len(first["targets"]) == 1
    assert second["views"][1] is None
    assert [view["target"] for view in third["views"]] == [0, 1] and third["targets"][1] == {"tokens": ["hello"]}
    greatest, text = first["views"][0]["weights"]["attention"]
    expected = next(iter(open_records(whole))).attention
    np.testing.assert_allclose(decoded(greatest, text), expected.ravel(), atol=2e-4)
    # scores that are not finite are null
    scores = [-0.5, float("-inf"), -0.25, -0.125]
    other = write_records(tmp_path / "other.jsonl", "other", records=[record(0, *PAIRS[0], scores=scores)])
    views = [one["views"] for one in collect(open_systems([str(whole), str(other)])).data["sentences"]]
    assert views[0][1]["scores"] == [-0.5, None, -0.25, -0.125] and views[0][1]["score"] is None
    assert views[0][0]["score"] == -0.5


def test_which_sentences(tmp_path, capsys):
    path = write_records(tmp_path / "soft.jsonl", pairs=PAIRS * 3)
    out = tmp_path / "page.html"
    main(["explore", str(path), "--out", str(out), "--first", "4"])
    shown = capsys.readouterr()
    assert re.search(r"page\.html: 4 sentences, 0\.\d MB; open it in a browser\n$", shown.out)
    assert "only the first 4 sentences; --first 0" in shown.err and "<title>Attention, de" in out.read_text()
    assert [one["id"] for one in _data(out)["sentences"]] == [0, 1, 2, 3]
    assert _data(out)["subtitle"] == "test: 4 of 9 sentences"
    main(["explore", str(path), "--out", str(out), "--sentences", "7", "2-3,99", "2"])
    assert "--sentences 99: not in the files" in capsys.readouterr().err
    assert [one["id"] for one in _data(out)["sentences"]] == [7, 2, 3]
    for text in ("x", "-1", "7-5", "1-", ","):
        with pytest.raises(OptionError, match=r"^--sentences"):
            main(["explore", str(path), "--out", str(out), f"--sentences={text}"])
    main(["explore", str(path), "--out", str(out), "--first", "0"])
    assert len(_data(out)["sentences"]) == 9 and not capsys.readouterr().err


def test_models_of_different_subwords_are_shown_together(tmp_path):
    """As for fairseq-attn plot, words must be the same, except those that a model does not know."""
    pairs = {
        "fine": [PAIRS[0], (PAIRS[1][0], "the dog is slee@@ ping")],
        "whole": [("ein kleines haus", "a small house"), ("d@@ er hund schläft", "the dog is sleeping")],
        "words": [("ein <unk> haus", "a small <unk>"), ("der hund schläft", "the dog is here")],
    }
    kinds = zip(pairs, ("bpe", "bpe", "none"))
    files = [write_records(tmp_path / f"{x}.jsonl", x, pairs=pairs[x], subwords=kind) for x, kind in kinds]
    data, _, _ = collect(open_systems([str(file) for file in files]))
    first, second = data["sentences"]
    pieces = {"tokens": ["ein", "klei@@", "nes", "haus"], "words": ["ein", "kleines", "haus"], "pieces": [1, 2, 1]}
    assert first["sources"] == [pieces, {"tokens": ["ein", "kleines", "haus"]}, {"tokens": ["ein", "<unk>", "haus"]}]
    assert [view["source"] for view in first["views"]] == [0, 1, 2]
    # of the reference "house" is not known to the last: it is the same text
    assert [(view["target"], view["text"]) for view in first["views"]] == [(0, 0), (0, 0), (1, 0)]
    assert [view["source"] for view in second["views"]] == [0, 1, 0]
    assert [(view["target"], view["text"]) for view in second["views"]] == [(0, 0), (1, 0), (2, 2)]
    # of translations, <unk> is a word as any other
    pairs = [("ein kleines haus", "<unk> small house")]
    found = write_records(tmp_path / "beam.jsonl", "beam", pairs=pairs, target="beam 5")
    data, _, _ = collect(open_systems([str(files[0]), str(found)]))
    assert [view["text"] for view in data["sentences"][0]["views"]] == [0, 1]


def _data(path):
    return json.loads(re.search(r'id="data">(.*?)</script>', path.read_text(encoding="utf-8"), re.S)[1])


def test_mistakes_are_named(tmp_path):
    def made(name, **options):
        return str(write_records(tmp_path / f"{name}.jsonl", name, **options))

    soft, out = made("soft"), tmp_path / "page.html"
    pieces = made("pieces", records=[record(0, *PAIRS[0])], subwords="none")
    unlike = made("unlike", pairs=[("ein <unk> baum", "a small tree")])
    some = made("some", pairs=[("ein <unk> <unk>", "a small tree")])
    for files, options, message in [
        ([soft, pieces], {}, r"sentence 0: .*soft\.jsonl and .*pieces\.jsonl have different .*; .*pieces.* has @@"),
        # what may be any word for one model must still be the same for the others
        ([some, soft, unlike], {}, r"soft\.jsonl and .*unlike\.jsonl have .* source words \('haus' and 'baum'\)"),
        ([soft, made("reverse", source_lang="en", target_lang="de")], {}, "is of en-de, .* of de-en"),
        ([made("empty", pairs=[])], {}, r"empty\.jsonl: has no sentences"),
        ([soft], {"sentences": [77]}, "--sentences 77: is in none of the files"),
    ]:
        with pytest.raises(OptionError, match=message):
            explore(files, out, **options)
    for options, message in [
        (["--out", str(out), "--first", "-1"], "--first -1: must be"),
        (["--out", soft], r"--out .*soft\.jsonl: must end in \.html"),
    ]:
        with pytest.raises(OptionError, match=message):
            main(["explore", soft, *options])
    assert not out.exists() and len(list(open_records(Path(soft)))) == len(PAIRS)


# --- what a reader sees -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> str:
    """The address of a page with two systems, one of them latent, with markup in a sentence."""
    folder = tmp_path_factory.mktemp("pages")
    pairs = [*PAIRS, (NASTY, NASTY), ("", "x"), ("א ב", "a b")]
    soft = write_records(folder / "soft.jsonl", pairs=pairs, architecture="lstm_soft")
    records = [record(number, *pair) for number, pair in enumerate(pairs)]
    records[1] = record(1, PAIRS[1][0], "a dog sleeps", reference="the <b>dog</b> is sleeping")
    for one in records:
        shape = one.attention.shape
        one.weights["posterior"] = diagonal(shape[0] - 1, shape[1] - 1, peak=0.99)
    # of "das Haus", the words of sentence 0: 0.1 + 0.2 of the pieces klei@@ nes for "small"
    records[0].weights["attention"][1] = [0.1, 0.1, 0.2, 0.5, 0.1]
    del records[5]
    latent = write_records(
        folder / "latent.jsonl", "latent <i>", records=records, weights=("attention", "posterior"), target="beam 5"
    )
    explore([str(soft), str(latent)], folder / "page.html")
    return (folder / "page.html").as_uri()


def word(page, card, side, index):
    return page.all(".card")[card].find_elements("css selector", f".word[data-side={side}]")[index]


def shown(page):
    """The numbers of the sentences in the list."""
    return page.script("return [...document.querySelectorAll('#list li')].map((one) => Number(one.id.split('-')[1]))")


def weights(page, card, side):
    """What the words of a side are shaded by, as computed by the browser, and the numbers beside them."""
    return page.script(
        """return [...document.querySelectorAll('.card')[arguments[0]].querySelectorAll(`.row.${arguments[1]} .word`)]
        .map((one) => [Number(one.dataset.weight), Number(getComputedStyle(one).getPropertyValue('--shade')),
                       one.querySelector('.value').textContent])""",
        card,
        side,
    )


def test_pointing_at_a_word_shades_what_it_looked_at(pages, made):
    pages.open(made + "#sentence=0")
    pages.hover(word(pages, 1, "target", 1))
    shaded = weights(pages, 1, "source")
    assert [one[0] for one in shaded] == pytest.approx([0.1, 0.3, 0.5, 0.1], abs=1e-3)
    assert [one[2] for one in shaded] == ["0.10", "0.30", "0.50", "0.10"]
    assert [one[1] for one in shaded] == pytest.approx([w**0.65 for w in (0.1, 0.3, 0.5, 0.1)], abs=2e-3)
    # the other model has the same target: the same word is active there
    assert [one.text.split("\n")[0] for one in pages.all(".word.active")] == ["small", "small"]
    assert pages.texts(".readout")[1].startswith("small (probability 0.61) attends to haus 0.50, kleines 0.30, ")
    # .5 and .3 and twice .1 are above the least that a line is drawn for
    assert len(pages.all(".card")[1].find_elements("css selector", ".links path")) == 4
    # a word that is clicked stays; pointing at another does not move it
    word(pages, 1, "target", 2).click()
    pages.hover(word(pages, 0, "target", 0))
    assert pages.texts(".word.active.pinned bdi") == pages.texts(".word[aria-pressed=true] bdi") == ["house"] * 2
    pages.press(browser.ESCAPE)
    # of a source word the column: "haus", the fourth token
    pages.hover(word(pages, 1, "source", 2))
    expected = [diagonal(3, 4)[0, 3], 0.5, diagonal(3, 4)[2, 3], diagonal(3, 4)[3, 3]]
    assert [one[0] for one in weights(pages, 1, "target")] == pytest.approx(expected, abs=1e-3)
    assert "haus gets attention from" in pages.texts(".readout")[1] and not pages.problems()


def test_switching_model_words_and_kind_of_weights(pages, made):
    pages.open(made + "#sentence=0")
    assert len(pages.all(".card")) == 2 and pages.texts(".card h2") == ["soft", "latent <i>"]
    pages.all("input[name=model]")[1].click()
    assert pages.texts(".card h2") == ["latent <i>"]
    assert "model=latent" in pages.script("return location.hash")
    assert pages.texts(".row.source .word bdi") == ["ein", "kleines", "haus", "end"]
    pages.all("input[name=units]")[1].click()
    assert pages.texts(".row.source .word bdi") == ["ein", "klei@@", "nes", "haus", "end"]
    pages.hover(word(pages, 0, "target", 1))
    assert [one[0] for one in weights(pages, 0, "source")] == pytest.approx([0.1, 0.1, 0.2, 0.5, 0.1], abs=1e-3)
    pages.all("input[name=weights]")[1].click()
    posterior = diagonal(3, 4, peak=0.99)[1]
    assert [one[0] for one in weights(pages, 0, "source")] == pytest.approx(posterior, abs=1e-3)
    assert pages.texts(".card .detail") == ["lstm_soft, posterior"]
    # a model without a posterior shows what it has
    pages.press("m", "m")
    assert pages.texts(".card .detail") == ["lstm_soft, attention"]
    # a cell of the heatmap says its weight
    pages.open(made + "#sentence=0&model=latent <i>")
    cell = pages.one(".map .cell[data-row='1'][data-column='2']")
    pages.hover(cell)
    assert pages.one(".tip").text == "small \u2190 haus0.500" and pages.texts(".map text.on") == ["haus", "small"]
    assert float(cell.get_attribute("fill-opacity")) == pytest.approx(0.5**0.65, abs=2e-3)
    assert not pages.problems()


def test_keyboard(pages, made):
    pages.open(made + "#sentence=0&model=soft")
    pages.press("j")
    assert "sentence=1" in pages.script("return location.hash")
    pages.press(browser.RIGHT)
    assert pages.texts(".word.active bdi") == ["dog"]
    assert pages.script("return document.activeElement.textContent").startswith("dog")
    pages.press("x")  # the source word that "dog" looked at most
    best = int(diagonal(4, 3)[1, :3].argmax())
    assert pages.texts(".word.active bdi") == [PAIRS[1][0].split()[best]]
    pages.press("k", "w")
    assert re.search("sentence=0.*show=subwords", pages.script("return location.hash"))
    pages.one("#list").send_keys(browser.END)
    assert "sentence=5" in pages.script("return location.hash")
    pages.press("?")
    assert pages.one("#help").is_displayed()
    pages.press(browser.ESCAPE)
    assert not pages.one("#help").is_displayed()
    pages.press("/", *"small")
    assert shown(pages) == [0]


def test_search_filter_and_sort(pages, made):
    pages.open(made)
    assert shown(pages) == [0, 1, 2, 3, 4, 5]
    search = pages.one("#search")
    search.send_keys("SCHLÄFT dog")
    assert shown(pages) == [1] and pages.one("#count").text == "1 of 6 sentences"
    search.clear()
    search.send_keys("reference-less word")
    assert shown(pages) == []
    pages.script("arguments[0].value = ''; arguments[0].dispatchEvent(new Event('input'))", search)
    pages.one("#open-filters").click()
    pages.one("#least-words").send_keys("3")
    pages.one("#most-words").send_keys("3")
    assert shown(pages) == [0, 1]
    pages.script("document.querySelector('#least-words').value = document.querySelector('#most-words').value = ''")
    pages.one("#most-score").send_keys("-0.525")  # scores of both models are -0.5 - 0.01 id
    assert shown(pages) == [3, 4, 5]
    pages.script("document.querySelector('#most-score').value = ''")
    choose = pages.one("#sort")
    choose.find_element("css selector", "[value=worst]").click()
    assert shown(pages) == [5, 4, 3, 2, 1, 0]
    choose.find_element("css selector", "[value=short]").click()
    assert shown(pages) == [4, 2, 5, 0, 1, 3]
    choose.find_element("css selector", "[value=disagreement]").click()
    # of all that the models were made to look at, only the row of "small" differs; of 1 and 5 there is no second model
    assert shown(pages)[0] == 0 and set(shown(pages)[-2:]) == {1, 5}
    own = record(0, *PAIRS[0]).word_attention(end=True)[1]
    differs = np.abs(own - np.array([0.1, 0.3, 0.5, 0.1])).sum() / 2 / 4  # the mean over the four rows
    assert f"differs {differs:.2f}" in pages.texts("#list .scores")[0]


def test_markup_in_a_sentence_is_text_and_nothing_is_asked_of_a_network(pages, made):
    pages.open(made + "#sentence=3&model=all")
    pages.hover(word(pages, 0, "target", 0))
    assert pages.texts(".card:first-child .row.source .word bdi")[:-1] == NASTY.replace("&amp;", "&").split()
    assert pages.texts(".card h2")[1] == "latent <i>"
    assert pages.script("return window.hit") is None and not pages.all("img, .words script")
    pages.script("location.hash = '#sentence=1'")
    pages.one("#next")
    assert pages.texts(".reference bdi") == ["the <b>dog</b> is sleeping"]
    assert pages.requests() == [made]
    languages = "return [...document.querySelectorAll(arguments[0])].map((one) => one.closest('[lang]').lang)"
    assert pages.script(languages, ".row.source .word bdi")[-2:] == ["de", "en"]
    found = pages.script("return ['de_AT', 'zh-hans', '', 'not a language'].map(languageTag)")
    assert found == ["de-AT", "zh-Hans", None, None] and not pages.problems()


def test_different_targets_empty_sides_and_missing_sentences(pages, made):
    pages.open(made + "#sentence=1")
    pages.hover(word(pages, 0, "target", 1))
    assert pages.texts(".word.active bdi") == ["dog"]  # the other model's second word is of another target
    assert "This translation is different" in pages.texts(".readout")[1]
    pages.hover(word(pages, 0, "source", 1))
    assert pages.texts(".word.active bdi") == ["hund", "hund"]
    pages.open(made + "#sentence=4")
    assert pages.texts(".card:first-child .row.source .word bdi") == ["end"]
    pages.open(made + "#sentence=5")
    assert "The file of this model lacks this sentence" in pages.texts(".card")[1]
    assert pages.one(".row.source .words").get_attribute("dir") == "rtl"
    pages.open(made + "#sentence=77&model=nobody")
    assert pages.one("#message").text == "Sentence 77 is not on this page. The model nobody is not on this page."
    assert pages.one("#position").text.startswith("Sentence 0")
    assert not pages.problems()


def test_keys_where_no_model_has_the_sentence(pages, made):
    """What was active before the sentence without cards is not looked for in it."""
    pages.open(made + "#sentence=3&model=latent <i>")
    word(pages, 0, "target", 1).click()
    pages.script("location.hash = '#sentence=5'")
    pages.wait("return document.querySelectorAll('.nothing').length === 1")
    pages.press("x", browser.ESCAPE, browser.RIGHT, "w", "p", "x", browser.ESCAPE)
    pages.script("document.querySelector('#list').scrollTop = 0; dispatchEvent(new Event('resize'))")
    assert not pages.all(".word") and not pages.problems()
    # the first of two cards is empty
    pages.open(made + "#sentence=5&model=all")
    pages.press("x", browser.ESCAPE, browser.RIGHT)
    assert len(pages.all(".word.active")) == 1 and not pages.problems()


def test_nothing_that_matches_is_said(pages, made):
    pages.open(made + "#sentence=1")
    search = pages.one("#search")
    search.send_keys("zzz")
    assert pages.one("#board").text.split("\n") == ["No sentence matches the search.", "Show all sentences"]
    pages.script("arguments[0].blur()", search)
    pages.press("x", "m", "w", "j", "k", "p")
    assert "No sentence matches" in pages.one("#board").text and not pages.all(".word")
    pages.one("#board button").click()
    assert search.get_attribute("value") == "" and len(pages.all("#list li")) == 6 and len(pages.all(".card")) > 0
    assert pages.one("#position").text.startswith("Sentence 1") and pages.all(".word.active")
    assert not pages.problems()


@pytest.fixture(scope="module")
def mixed(tmp_path_factory) -> str:
    """The address of a page with models of different subwords, one of them with weights that sum to two."""
    folder = tmp_path_factory.mktemp("mixed")
    fine = record(0, *PAIRS[0], scores=[-0.5, float("-inf"), -0.25, -0.125])
    whole = record(0, "ein kleines haus", "a small hou@@ se", 2 * diagonal(4, 3))
    files = [
        write_records(folder / "fine.jsonl", "fine", records=[fine, record(1, *PAIRS[1])]),
        write_records(folder / "whole.jsonl", "whole", records=[whole, record(1, "der <unk> schläft", "a dog")]),
    ]
    explore([str(file) for file in files], folder / "page.html")
    return (folder / "page.html").as_uri()


def test_a_shade_says_the_same_in_all_models(pages, mixed):
    pages.open(mixed + "#sentence=0")
    pages.hover(word(pages, 0, "target", 1))
    # the weights of "small" in both, in subwords; in words the pieces of "kleines" are added
    fine, whole = diagonal(3, 4)[1], 2 * diagonal(4, 3)[1]
    fine = [fine[0], fine[1] + fine[2], fine[3], fine[4]]
    greatest = (2 * diagonal(4, 3)).max()
    assert greatest > 1
    for card, expected in enumerate([fine, whole]):
        shaded = weights(pages, card, "source")
        assert [one[0] for one in shaded] == pytest.approx(expected, abs=1e-3)
        assert [one[1] for one in shaded] == pytest.approx([(w / greatest) ** 0.65 for w in expected], abs=2e-3)
    assert pages.texts(".legend text") == ["0", f"{greatest:.2f}"] * 2
    pages.all("input[name=rows]")[1].click()
    assert "rows=one" in pages.script("return location.hash")
    for card, expected in enumerate([fine, [weight / 2 for weight in whole]]):
        shaded = weights(pages, card, "source")
        assert [one[0] for one in shaded] == pytest.approx(expected, abs=1e-3)
    assert pages.texts(".legend text") == ["0", "1"] * 2
    pages.script("document.activeElement.blur()")
    pages.press("n")
    assert "rows=" not in pages.script("return location.hash")
    assert pages.texts(".legend text")[1] == f"{greatest:.2f}" and not pages.problems()


def test_each_model_has_its_own_subwords(pages, mixed):
    pages.open(mixed + "#sentence=0&show=subwords")
    assert pages.texts(".row.source .word bdi") == "ein klei@@ nes haus end ein kleines haus end".split()
    pages.hover(word(pages, 0, "source", 3))
    assert pages.texts(".word.active bdi") == ["haus"]  # the fourth piece of the other model is its end
    assert "words are split differently" in pages.texts(".readout")[1]
    pages.hover(word(pages, 1, "target", 2))
    assert "words are split differently" in pages.texts(".readout")[0]
    pages.press("w")
    pages.hover(word(pages, 0, "source", 2))
    assert pages.texts(".word.active bdi") == ["haus", "haus"]
    pages.open(mixed + "#sentence=1")
    pages.hover(word(pages, 1, "source", 1))
    assert pages.texts(".word.active bdi") == ["hund", "<unk>"]
    pages.hover(word(pages, 1, "target", 1))
    assert "This translation is different" in pages.texts(".readout")[0]
    assert "der hund schläft" in pages.texts("#list .words-of") and not pages.problems()


def test_scores_that_are_not_known_are_dashes(pages, mixed):
    pages.open(mixed + "#sentence=0&model=fine")
    assert pages.texts(".card .score summary") == ["mean log p \u2013"]
    pages.hover(word(pages, 0, "target", 1))
    assert pages.texts(".readout")[0].startswith("small (probability \u2013) attends to")
    assert pages.texts("#list .scores") == ["3 words  \u00b7  \u2013", "3 words  \u00b7  \u22120.51"]
    pages.one("#sort [value=spread]").click()  # of sentence 0 one score is known only
    assert shown(pages) == [1, 0]
    assert not pages.problems()


def test_a_language_without_blanks_is_shown_in_subwords(pages, tmp_path):
    one = record(0, "\u2581日本 の", "\u2581a \u2581b", subwords="sentencepiece")
    explore(
        [str(write_records(tmp_path / "ja.jsonl", records=[one], subwords="sentencepiece", source_lang="ja"))],
        tmp_path / "page.html",
    )
    address = (tmp_path / "page.html").as_uri() + "#sentence=0"
    for start, units in (("", ["\u2581日本", "の"]), ("&show=words", ["日本の"])):
        pages.open(address + start)
        assert pages.texts(".row.source .word bdi")[: len(units)] == units
    pages.press("w")
    assert "show=" not in pages.script("return location.hash") and not pages.problems()


def test_words_from_right_to_left(pages, tmp_path):
    path = write_records(tmp_path / "he.jsonl", pairs=[("ילד ( ABC )", "ولد")], source_lang="he", target_lang="ar")
    explore([str(path)], tmp_path / "page.html")
    pages.open((tmp_path / "page.html").as_uri())
    directions = (
        "return [...document.querySelectorAll('.row.source bdi')].map((one) => getComputedStyle(one).direction)"
    )
    assert pages.script(directions) == ["rtl", "rtl", "ltr", "rtl", "ltr"]  # a bracket is mirrored; then the end
    pages.hover(pages.one(".map .cell[data-row='0'][data-column='0']"))
    target, source = pages.all(".tip bdi")  # as the arrow between them says, the target is at the left
    assert target.text == "ولد" and source.text == "ילד" and target.location["x"] < source.location["x"]
    assert not pages.problems()


COUNT, MODELS = 230, 5


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> str:
    """The address of a page; sentence n has n % 7 + 1 words, and the scores fall with n."""
    folder = tmp_path_factory.mktemp("many")
    files = []
    for model in range(MODELS):
        records = []
        for number in range(COUNT):
            words = [f"w{number}x{place}" for place in range(number % 7 + 1)]
            weights = diagonal(5, len(words), 0.5 + 0.1 * model)
            records.append(record(number, " ".join(words), f"v{number} and a longer word", weights))
        files.append(str(write_records(folder / f"m{model}.jsonl", f"model {model}", records=records)))
    explore(files, folder / "page.html")
    return (folder / "page.html").as_uri()


def test_the_list_has_pages(pages, many):
    pages.open(many + "#sentence=99")
    assert shown(pages) == list(range(100)) and pages.one("#pages").text == "1\u2013100 of 230"
    assert not pages.one("#page-before").is_enabled()
    pages.press("j")  # over the end of the page
    assert "sentence=100" in pages.script("return location.hash")
    assert shown(pages) == list(range(100, 200))
    selected = pages.one("#list [aria-selected=true]")
    found = [selected.get_attribute(name) for name in ("id", "aria-posinset", "aria-setsize")]
    assert found == ["sentence-100", "101", "230"]
    pages.press("k")
    assert shown(pages)[0] == 0 and pages.one("#list").get_attribute("aria-activedescendant") == "sentence-99"
    # to look at other pages does not choose a sentence
    pages.one("#page-after").click()
    pages.one("#page-after").click()
    assert shown(pages) == list(range(200, 230)) and not pages.one("#page-after").is_enabled()
    assert "sentence=99" in pages.script("return location.hash") and not pages.all("#list [aria-selected=true]")
    assert pages.one("#list").get_attribute("aria-activedescendant") is None
    pages.all("#list li")[3].click()
    assert "sentence=203" in pages.script("return location.hash")
    pages.one("#list").send_keys(browser.END)
    assert pages.one("#position").text == "Sentence 229 230 of 230"
    # a search finds on all pages
    pages.one("#search").send_keys("v228")
    assert shown(pages) == [228] and not pages.one("#pager").is_displayed()
    assert not pages.problems()


def test_many_models_are_compact(pages, many):
    pages.open(many + "#sentence=6")
    cards = pages.all(".card.compact")
    assert len(cards) == MODELS and "cards=" not in pages.script("return location.hash")
    assert cards[0].location["y"] == cards[1].location["y"]  # beside each other
    assert not pages.shown(".row.source") and len(pages.shown(".map svg")) == MODELS
    pages.hover(pages.all(".word[data-side=target]")[1])
    assert pages.texts(".word.active bdi") == ["and"] * MODELS  # in all models
    assert len(pages.shown(".readout")) == MODELS
    for card, text in enumerate(pages.texts(".readout")):
        assert f"attends to w6x1 {diagonal(5, 7, 0.5 + 0.1 * card)[1, 1]:.2f}" in text
    pages.press("c")
    assert not pages.all(".card.compact") and len(pages.shown(".row.source")) == MODELS
    assert "cards=full" in pages.script("return location.hash")
    # one model of many is chosen in a menu, and has its full card
    pages.one("select[name=model] option:nth-child(2)").click()
    assert pages.texts(".card h2") == ["model 1"] and pages.shown(".row.source") and not pages.all("input[name=cards]")
    assert pages.script("return document.activeElement.name") == "model" and not pages.problems()


def test_axe_finds_no_violation(pages, many, view):
    for where in ("#sentence=6", "#sentence=6&model=model 1", "#sentence=6&cards=full"):
        pages.open(many + where)
        pages.all(".word[data-side=target]")[1].click()
        pages.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        pages.one("#open-list" if view[0] < 800 else "#open-filters").click()
        assert browser.violations(pages) == []
        pages.script("document.activeElement.blur(); document.querySelector('#help').showModal()")
        assert browser.violations(pages) == []
        assert pages.script("return document.documentElement.scrollWidth") <= view[0]
