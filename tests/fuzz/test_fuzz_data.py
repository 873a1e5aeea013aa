"""Damaged data folders: index, words, dictionary. They are read, or refused in one line."""

import shutil
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.data_utils import load_indexed_dataset
from fuzzing import attempt, fuzz
from hypothesis import strategies as st
from mutations import damaged_bytes

import fairseq_attn_plugin  # noqa: F401 (installs the patches)

NAME = "train.xx-yy.xx"
FILES = (f"{NAME}.idx", f"{NAME}.bin", "dict.xx.txt")


@pytest.fixture(scope="module")
def folder(tiny_data, tmp_path_factory):
    return Path(shutil.copytree(tiny_data, tmp_path_factory.mktemp("data") / "bin"))


@fuzz(st.sampled_from(FILES), st.data())
def test_data_folders(folder, tiny_data, name, data):
    whole = (Path(tiny_data) / name).read_bytes()
    (folder / name).write_bytes(data.draw(damaged_bytes(whole)))

    def load() -> None:
        dictionary = Dictionary.load(str(folder / "dict.xx.txt"))
        corpus = load_indexed_dataset(str(folder / NAME), dictionary)
        for number in range(len(corpus)):
            assert dictionary.string(corpus[number]) is not None

    try:
        attempt(f"data {name[-3:]}", load)
    finally:
        (folder / name).write_bytes(whole)
