"""Heatmaps: the file, its format, its labels and its boxes."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from fairseq_attn_plugin.analysis.plot import heatmap
from fairseq_attn_plugin.errors import OptionError

matplotlib = pytest.importorskip("matplotlib")

SOURCE = ["le", "mižage", "þurk", "."]
TARGET = ["falesta", "hemar", "."]
WEIGHTS = np.array([[0.1, 0.7, 0.1, 0.1], [0.0, 0.2, 0.75, 0.05], [0.0, 0.0, 0.1, 0.9]])
GOLD_COLOUR = "#d9480f"


def read_png(path):
    from matplotlib.image import imread

    return imread(path)


def test_labels_and_title_are_text_in_an_svg(tmp_path):
    path = tmp_path / "picture.svg"
    heatmap(WEIGHTS, SOURCE, TARGET, path, title="test sentence 7", gold=[(1, 0), (2, 1)])
    root = ElementTree.parse(path).getroot()
    texts = ["".join(element.itertext()).strip() for element in root.iter("{http://www.w3.org/2000/svg}text")]
    for label in (*SOURCE, *TARGET, "test sentence 7"):
        assert label in texts
    assert texts.count(".") == 2
    assert any("gold" in text for text in texts)


def test_one_box_for_every_gold_link(tmp_path):
    for links in ([], [(1, 0)], [(1, 0), (2, 1), (3, 2), (3, 2)]):
        path = tmp_path / f"{len(links)}.svg"
        heatmap(WEIGHTS, SOURCE, TARGET, path, gold=links)
        assert path.read_text(encoding="utf-8").count(f"stroke: {GOLD_COLOUR}") == len(set(links))


def test_suffix_is_the_format(tmp_path):
    for suffix, start in ((".png", b"\x89PNG"), (".PDF", b"%PDF"), (".svg", b"<?xml")):
        path = tmp_path / ("picture" + suffix)
        heatmap(WEIGHTS, SOURCE, TARGET, str(path))
        assert path.read_bytes().startswith(start)


def test_size_grows_with_the_sentence_and_nothing_is_cut_off(tmp_path):
    long_source = ["w%d" % i for i in range(30)] + ["averyveryverylongword"]
    heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / "small.png")
    heatmap(np.full((3, 31), 1 / 31), long_source, TARGET, tmp_path / "large.png")
    small, large = read_png(tmp_path / "small.png"), read_png(tmp_path / "large.png")
    assert large.shape[1] > 2 * small.shape[1] and large.shape[0] > small.shape[0]
    for picture in (small, large):
        for edge in (picture[0], picture[-1], picture[:, 0], picture[:, -1]):
            assert (edge[:, :3] == 1).all()  # white: no label runs over the edge


def test_more_attention_is_darker(tmp_path):
    light, dark = tmp_path / "light.png", tmp_path / "dark.png"
    heatmap(np.full((4, 4), 0.1), list("abcd"), list("efgh"), light)
    heatmap(np.full((4, 4), 0.9), list("abcd"), list("efgh"), dark)
    assert read_png(dark)[..., :3].mean() < read_png(light)[..., :3].mean()


def test_the_same_picture_is_the_same_file(tmp_path):
    for name in ("a.svg", "b.svg"):
        heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_mistakes(tmp_path):
    with pytest.raises(ValueError, match=r"shape \(3, 4\) for 2 target and 4 source tokens"):
        heatmap(WEIGHTS, SOURCE, TARGET[:2], tmp_path / "a.png")
    with pytest.raises(ValueError, match=r"gold link \(4, 0\) is outside 4 source and 3 target tokens"):
        heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / "a.png", gold=[(4, 0)])
    with pytest.raises(OptionError, match=r"cannot draw \.jpg; use \.png, \.svg, \.pdf"):
        heatmap(WEIGHTS, SOURCE, TARGET, tmp_path / "a.jpg")
    assert not list(tmp_path.iterdir())
