"""The recipe of the synthetic corpus: text and gold links of either direction."""

import pytest
from recipe_corpora import complaint

from fairseq_attn_plugin.toy_corpus import generate, write

SIZES = {"train": 20, "valid": 5, "test": 6}


@pytest.fixture
def settings(tmp_path, tools):
    return {"OUT": tmp_path / "out", "BPE": "none", **{split.upper(): size for split, size in SIZES.items()}}


@pytest.mark.parametrize(("source", "target"), [("vr", "dm"), ("dm", "vr")])
def test_text_and_links_are_those_of_the_corpus(source, target, recipe, settings, tmp_path):
    recipe("toy_corpus", "prepare", **settings, SRC=source, CORPUS_SEED=3)
    text = tmp_path / "out" / f"{source}-{target}.none" / "data" / "text"
    for split, pairs in generate(3, SIZES).items():
        for name, side in (("vr", [pair.source for pair in pairs]), ("dm", [pair.target for pair in pairs])):
            assert (text / f"{split}.{name}").read_text(encoding="utf-8").split("\n")[:-1] == list(map(" ".join, side))
        lines = (text / f"{split}.align").read_text().splitlines()
        links = [[tuple(map(int, link.split("-"))) for link in line.split()] for line in lines]
        turned = [sorted((j, i) if source == "dm" else (i, j) for i, j in pair.links) for pair in pairs]
        assert list(map(sorted, links)) == turned


def test_a_folder_of_the_command(recipe, settings, corpus_folder, tmp_path):
    write(generate(5, SIZES), corpus_folder)
    recipe("toy_corpus", "prepare", **settings, DATA=corpus_folder)
    text = tmp_path / "out" / "vr-dm.none" / "data" / "text"
    for name in ("train.vr", "test.dm", "test.align"):
        assert (text / name).read_bytes() == (corpus_folder / name).read_bytes()
    (corpus_folder / "valid.align").unlink()
    other = {**settings, "OUT": tmp_path / "other"}
    assert "valid.align" in complaint(recipe("toy_corpus", "prepare", check=False, **other, DATA=corpus_folder))


def test_other_sizes_are_another_corpus(recipe, settings):
    recipe("toy_corpus", "prepare", **settings)
    line = complaint(recipe("toy_corpus", "prepare", check=False, **{**settings, "TEST": 7}))
    assert "was prepared with other settings" in line
