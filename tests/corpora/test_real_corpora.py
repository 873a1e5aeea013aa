"""The published corpora, where there are copies of them."""

import gzip
import hashlib
from argparse import Namespace

import pytest

from fairseq_attn_plugin.corpora.catalogue import CORPORA
from fairseq_attn_plugin.corpora.downloads import checksum


def folder_of(real_data, name):
    folder = real_data / name
    if not folder.is_dir():
        pytest.skip(f"NO REAL DATA: {folder} is not a folder")
    return folder


def test_published_files_have_the_checksums_of_the_downloads(real_data):
    args = Namespace()
    for download in CORPORA["multi30k"].files(args):
        assert checksum(folder_of(real_data, "multi30k") / download.name) == download.known
    known = {download.name: download.known for download in CORPORA["iwslt15_en_vi"].files(args)}
    for name in ("tst2012.en", "tst2013.vi"):
        data = gzip.decompress((folder_of(real_data, "iwslt15-en-vi") / f"{name}.gz").read_bytes())
        assert hashlib.sha256(data).hexdigest() == known[name]
