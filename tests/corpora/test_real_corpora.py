"""The published corpora, where there are copies of them."""

import gzip
import hashlib
from argparse import Namespace

import pytest
from test_text import are_disjoint

from fairseq_attn_plugin.corpora.catalogue import CORPORA
from fairseq_attn_plugin.corpora.downloads import checksum
from fairseq_attn_plugin.corpora.parallel import read_table, split_pairs


def folder_of(real_data, name):
    folder = real_data / name
    if not folder.is_dir():
        pytest.skip(f"NO REAL DATA: {folder} is not a folder")
    return folder


def test_tatoeba_has_39115_pairs_of_equally_many_words(real_data, capsys):
    splits = split_pairs(read_table(folder_of(real_data, "tatoeba-spa-eng"), "spa.txt"), equal_words=True)
    assert "note: 39115 of 118964 pairs have equally many words on both sides" in capsys.readouterr().out
    assert [len(splits[split]) for split in ("train", "valid", "test")] == [35246, 1947, 1922] and are_disjoint(splits)


@pytest.mark.parametrize(
    ("name", "folder", "message"),
    [
        ("iwslt15_en_vi", "iwslt15-en-vi", "train.en.gz (or train.en) is missing"),
        ("iwslt14_de_en", "iwslt14-de-en", "train.de.gz (or train.de) is missing"),
    ],
)
def test_folders_without_training_data_say_so(name, folder, message, real_data, prepare):
    source = folder_of(real_data, folder)
    if (source / "train.en.gz").is_file():
        pytest.skip("the folder holds the training data")
    assert message in prepare(name, check=False, data=source).error


def test_published_files_have_the_checksums_of_the_downloads(real_data):
    args = Namespace()
    for download in CORPORA["multi30k"].files(args):
        assert checksum(folder_of(real_data, "multi30k") / download.name) == download.known
    known = {download.name: download.known for download in CORPORA["iwslt15_en_vi"].files(args)}
    for name in ("tst2012.en", "tst2013.vi"):
        data = gzip.decompress((folder_of(real_data, "iwslt15-en-vi") / f"{name}.gz").read_bytes())
        assert hashlib.sha256(data).hexdigest() == known[name]
