"""Heatmaps: the file, its format, its labels and its boxes."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from fairseq_attn_plugin.analysis.drawing import canvas
from fairseq_attn_plugin.analysis.drawing.canvas import SERIES_COLOURS, save
from fairseq_attn_plugin.analysis.drawing.heatmaps import Panel, heatmaps
from fairseq_attn_plugin.errors import OptionError

matplotlib = pytest.importorskip("matplotlib")

SOURCE = ["le", "mižage", "þurk", "."]
TARGET = ["falesta", "hemar", "."]
WEIGHTS = np.array([[0.1, 0.7, 0.1, 0.1], [0.0, 0.2, 0.75, 0.05], [0.0, 0.0, 0.1, 0.9]])


def kept_figures(monkeypatch):
    """The figures that are drawn from now on; nothing is written."""
    from matplotlib.figure import Figure

    figures = []

    def savefig(self, path, **_):
        self.draw_without_rendering()
        figures.append(self)
        path.touch()

    monkeypatch.setattr(Figure, "savefig", savefig)
    return figures


def heatmap(weights, source, target, path, label="", gold=()):
    heatmaps([Panel(weights, source, target, label, gold)], path)


def texts_of(path):
    root = ElementTree.parse(path).getroot()
    return ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]


def test_files(tmp_path):
    """The suffix is the format; text in an SVG is text, long words are cut; the same picture is the same file."""
    for suffix, start in ((".png", b"\x89PNG"), (".PDF", b"%PDF"), (".svg", b"<?xml")):
        path = tmp_path / ("picture" + suffix)
        heatmap(WEIGHTS, ["x" * 500, *SOURCE[1:]], ["y" * 30, *TARGET[1:]], path, "sentence 7", [(1, 0)])
        assert path.read_bytes().startswith(start)
    texts = texts_of(path)
    assert {*SOURCE[1:], *TARGET[1:], "sentence 7", "x" * 29 + "\u2026", "y" * 30} <= set(texts)
    assert texts.count(".") == 2 and any("gold" in text for text in texts)
    heatmap(WEIGHTS, ["x" * 500, *SOURCE[1:]], ["y" * 30, *TARGET[1:]], tmp_path / "a.svg", "sentence 7", [(1, 0)])
    assert path.read_bytes() == (tmp_path / "a.svg").read_bytes()


def test_mistakes(tmp_path):
    with pytest.raises(ValueError, match=r"does not match the number of labels"):
        heatmap(WEIGHTS, SOURCE, TARGET[:2], tmp_path / "a.png")
    with pytest.raises(OptionError, match=r"cannot draw \.jpg; use \.png, \.svg, \.pdf"):
        heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / "a.jpg")
    assert not list(tmp_path.iterdir())


def panel(rows, columns, label="", weight=0.1, target="t"):
    tokens = [f"s{i}" for i in range(columns)], [f"{target}{i}" for i in range(rows)]
    return Panel(np.full((rows, columns), weight), *tokens, label)


def test_panels_side_by_side(tmp_path):
    path = tmp_path / "a.svg"
    second = Panel(1 - WEIGHTS, SOURCE, TARGET, "adm", {(0, 0)}, {(0, 0), (1, 1)})
    third = Panel(WEIGHTS[:2], SOURCE, TARGET[:2], "other words")
    heatmaps([Panel(WEIGHTS, SOURCE, TARGET, "soft"), second, third], path)
    texts = texts_of(path)
    assert [texts.count(text) for text in ("soft", "adm", "other words")] == [1] * 3
    # source words above each panel; target words where they are others than those of the panel before
    assert texts.count("mižage") == 3 and texts.count("falesta") == 2
    assert sum("gold link, dashed: only possible" in text for text in texts) == 1  # one legend
    assert path.read_text(encoding="utf-8").count(f"stroke: {SERIES_COLOURS[1].lower()}") == 2
    assert path.read_text(encoding="utf-8").count("stroke-dasharray") == 1


def test_one_scale(tmp_path, monkeypatch):
    figures = kept_figures(monkeypatch)
    heatmaps([panel(2, 2, weight=0.2), panel(2, 2, weight=0.9)], tmp_path / "a.png")
    heatmaps([panel(2, 2, weight=0.2), panel(2, 2, weight=1.5)], tmp_path / "a.png")  # as sigmoid's sums over pieces
    for figure, greatest in zip(figures, (1, 1.5)):
        *axes, bar = figure.axes
        assert [one.images[0].get_clim() for one in axes] == [(0, greatest)] * 2
        assert bar.get_ylim() == (0, greatest)


def test_panels_do_not_overlap_and_tops_are_level(tmp_path, monkeypatch):
    figures = kept_figures(monkeypatch)
    long = Panel(np.zeros((2, 2)), ["averyverylongsourceword", "b"], ["averyveryverylongtargetword", "d"], "l" * 60)
    heatmaps([panel(3, 4), long, panel(6, 1), long, panel(1, 3)], tmp_path / "a.png")
    # the panels with everything around them, in pixels, and without the scale
    boxes = [axes.get_tightbbox(figures[0].canvas.get_renderer()) for axes in figures[0].axes[:-1]]
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[number + 1 :])
    tops = [axes.get_position().y1 for axes in figures[0].axes[:-1]]
    assert tops == pytest.approx([tops[0]] * 5)


def test_wide_pictures_go_on_in_another_row_and_cells_shrink_no_further_than_letters(tmp_path, monkeypatch):
    figures = kept_figures(monkeypatch)
    for columns, count in ((30, 2), (60, 3), (200, 1)):
        heatmaps([panel(4, columns, f"l{number}") for number in range(count)], tmp_path / "a.png")
    two, three, one = ([axes.get_window_extent() for axes in figure.axes[:-1]] for figure in figures)
    assert two[0].y0 == pytest.approx(two[1].y0) and two[0].x1 < two[1].x0
    assert three[0].y0 > three[1].y1 and three[1].y0 > three[2].y1
    assert three[0].x0 == pytest.approx(three[2].x0)
    assert [axes.yaxis.get_tick_params()["labelleft"] for axes in figures[0].axes[:-1]] == [True, False]
    assert [axes.yaxis.get_tick_params()["labelleft"] for axes in figures[1].axes[:-1]] == [True] * 3
    for figure, (box, *_) in zip(figures, (two, three, one)):
        (label, *_) = figure.axes[0].get_xticklabels()
        width = box.width / len(figure.axes[0].get_xticklabels())
        assert label.get_window_extent(figure.canvas.get_renderer()).width <= width


def test_sides_without_words(tmp_path):
    path = tmp_path / "a.svg"
    heatmaps([Panel(np.zeros((0, 4)), SOURCE, []), Panel(np.zeros((3, 0)), [], TARGET), panel(0, 0)], path)
    texts = texts_of(path)
    assert texts.count("no words") == 3 and texts.count("mižage") == 1 and texts.count("hemar") == 1


def test_text_is_shown_as_it_is(tmp_path):
    words = ["$a^2$", "_b_", "\\alpha", "\\$5", "<b>&amp;", "'\"", "שלום", "مرحبا", "$", "100%", "{x}", "\udcff"]
    path = tmp_path / "a.svg"
    heatmaps([Panel(np.eye(12), words, words[::-1], "_l$1$")], path)
    texts = texts_of(path)
    for word in [*words[:-1], "?"]:  # for the half of a character
        assert texts.count(word) == 2
    assert "_l$1$" in texts


def test_fonts_are_installed_ones_in_order(monkeypatch):
    from matplotlib import font_manager, rc_context

    monkeypatch.setattr(font_manager, "get_font_names", lambda: ["Other", "DejaVu Sans", "Mine", "Noto Sans"])
    with rc_context({"font.sans-serif": ["Mine", "Not installed"]}):
        assert canvas.families() == ["DejaVu Sans", "Mine", "Noto Sans"]


def test_characters_that_no_font_has_are_named_once(tmp_path, capsys, recwarn):
    heatmaps([Panel(np.eye(2), ["\ue001", "a"], ["\ue001\ue002", "b"])], tmp_path / "a.png")
    said = capsys.readouterr().err
    assert said.startswith(f"{tmp_path / 'a.png'}: no font has \ue001\ue002; install one") and said.count("\n") == 1
    assert not recwarn.list


@pytest.mark.parametrize(("size", "resolution"), [((10, 10), 150), ((400, 100), 31.6), ((2000, 1), 30)])
def test_very_large_pictures_fit_into_memory(tmp_path, monkeypatch, size, resolution):
    from matplotlib.figure import Figure

    used = []
    monkeypatch.setattr(Figure, "savefig", lambda self, path, dpi, **_: (used.append(dpi), path.touch()))
    save(Figure(figsize=size), tmp_path / "a.png")
    # 4e7 points, and no side above 6e4
    assert used == [pytest.approx(resolution, abs=0.05)]
