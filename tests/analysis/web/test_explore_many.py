"""The page of fairseq-attn explore with many sentences and many models; axe-core finds no violation in it."""

import browser
import pytest
from records_for_tests import diagonal, record, write_records
from test_explore import pages, shown

from fairseq_attn_plugin.analysis.web.explore import explore

__all__ = ["pages"]
COUNT, MODELS = 230, 5


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> str:
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


def test_the_list_has_pages(pages, made):
    pages.open(made + "#sentence=99")
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
    # another order begins with its first page; a search finds on all pages
    pages.one("#sort [value=long]").click()
    assert shown(pages)[:3] == [6, 13, 20] and len(shown(pages)) == 100
    pages.one("#search").send_keys("v228")
    assert shown(pages) == [228] and not pages.one("#pager").is_displayed()
    pages.open(made + "#sentence=215")
    assert shown(pages)[0] == 200 and pages.one("#list [aria-selected=true]").get_attribute("id") == "sentence-215"
    assert not pages.problems()


def test_many_models_are_compact(pages, made):
    pages.open(made + "#sentence=6")
    cards = pages.all(".card.compact")
    assert len(cards) == MODELS and "cards=" not in pages.script("return location.hash")
    assert cards[0].location["y"] == cards[1].location["y"]  # beside each other
    assert not pages.shown(".row.source") and len(pages.shown(".map svg")) == MODELS
    pages.hover(pages.all(".word[data-side=target]")[1])
    assert pages.texts(".word.active bdi") == ["and"] * MODELS  # in all models
    assert len(pages.shown(".readout")) == MODELS
    for card, text in enumerate(pages.texts(".readout")):
        assert f"attends to w6x1 {diagonal(5, 7, 0.5 + 0.1 * card)[1, 1]:.2f}" in text
    pages.press("x")  # to the source word, which only the heatmap shows
    assert pages.texts(".map text.on") == ["w6x1"] * MODELS
    pages.press("c")
    assert not pages.all(".card.compact") and len(pages.shown(".row.source")) == MODELS
    assert "cards=full" in pages.script("return location.hash")
    # one model of many is chosen in a menu, and has its full card
    pages.one("select[name=model] option:nth-child(2)").click()
    assert pages.texts(".card h2") == ["model 1"] and pages.shown(".row.source") and not pages.all("input[name=cards]")
    assert pages.script("return document.activeElement.name") == "model" and not pages.problems()


def test_lines_cross_no_label(pages, made):
    for width in (1280, 390):
        pages.resize(width, 900)
        pages.open(made + "#sentence=6&model=model 1")
        pages.all(".word[data-side=source]")[1].click()
        crossed = pages.script(
            """const boxes = (all) => [...document.querySelectorAll(all)].map((one) => one.getBoundingClientRect());
            const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
            return [boxes('.links path').length,
              boxes('.links path').filter((line) => boxes('.row-label').some((label) => meet(line, label))).length]"""
        )
        assert crossed[0] > 0 and crossed[1] == 0, width


@pytest.mark.parametrize(("width", "mode"), browser.VIEWS)
def test_axe_finds_no_violation(pages, made, width, mode):
    browser.script()
    try:
        browser.look(pages, width, mode)
        for where in ("#sentence=6", "#sentence=6&model=model 1", "#sentence=6&cards=full"):
            pages.open(made + where)
            pages.all(".word[data-side=target]")[1].click()
            pages.script("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            pages.one("#open-list" if width < 800 else "#open-filters").click()
            assert browser.violations(pages) == []
            pages.script("document.activeElement.blur(); document.querySelector('#help').showModal()")
            assert browser.violations(pages) == []
            assert pages.script("return document.documentElement.scrollWidth") <= width
    finally:
        pages.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        pages.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
