"""The published corpora, where there are copies of them."""

import gzip

import pytest
from recipe_corpora import TINY, complaint, lines_of
from test_recipe_text import LANGUAGES, shared_sentences

from fairseq_attn_plugin.corpora.pair_splits import split_pairs


def folder_of(real_data, name):
    folder = real_data / name
    if not folder.is_dir():
        pytest.skip(f"NO REAL DATA: {folder} is not a folder")
    return folder


def test_tatoeba_has_39115_pairs_of_equally_many_words(real_data, tmp_path, capsys):
    split_pairs(folder_of(real_data, "tatoeba-spa-eng"), "spa.txt", LANGUAGES, tmp_path, equal_words=True)
    assert "note: 39115 of 118964 pairs have equally many words on both sides" in capsys.readouterr().out
    sizes = {split: len(lines_of(tmp_path, split, "en")) for split in ("train", "valid", "test")}
    assert sizes == {"train": 35246, "valid": 1947, "test": 1922}
    assert not shared_sentences(tmp_path)


def test_multi30k(real_data, recipe, tmp_path):
    """The first 200 lines of the files, all the way."""
    for path in folder_of(real_data, "multi30k").glob("*.gz"):
        lines = gzip.decompress(path.read_bytes()).splitlines(True)[:200]
        (tmp_path / path.name).write_bytes(gzip.compress(b"".join(lines)))
    settings = {"DATA": tmp_path, "OUT": tmp_path / "out", "BPE_SIZE": 500, "GENERATE_OPTIONS": "--max-len-b 20"}
    done = recipe("multi30k", "--", *TINY, "--max-update", "2", **settings)
    assert "nrefs:1|case:lc|eff:no|tok:none|smooth:exp" in done.stdout
    assert "train.de holds 200 sentence pairs, the published corpus at least 29000" in done.stderr, (
        "a shortened corpus is said to be one"
    )


@pytest.mark.parametrize(
    ("name", "folder", "message"),
    [
        ("iwslt15_en_vi", "iwslt15-en-vi", "train.en.gz (or train.en) is missing"),
        ("iwslt14_de_en", "iwslt14-de-en", "no train.de.gz, train.en.gz (or unzipped)"),
    ],
)
def test_folders_without_training_data_say_so(name, folder, message, real_data, recipe, tmp_path):
    source = folder_of(real_data, folder)
    if (source / "train.en.gz").is_file():
        pytest.skip("the folder holds the training data")
    assert message in complaint(recipe(name, check=False, DATA=source, OUT=tmp_path))
