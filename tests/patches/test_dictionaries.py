"""A checkpoint goes with the dictionaries of its training."""

import shutil

import pytest
from in_process import run_tool

from cli import TINY, USER_DIR

TRAINING = ["--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "adam", "--batch-size", 50]
TRAINING += ["--no-epoch-checkpoints", "--disable-validation"]


@pytest.fixture
def reordered(tiny_data, tmp_path):
    """The same data, whose dictionary of the source has two lines in another order."""
    folder = tmp_path / "reordered"
    shutil.copytree(tiny_data, folder)
    file = folder / "dict.xx.txt"
    first, second, *others = file.read_text().splitlines(keepends=True)
    file.write_text("".join([second, first, *others]))
    return folder


def test_data_with_another_dictionary_are_refused(tiny_data, reordered, tmp_path):
    saved = tmp_path / "trained"
    run_tool("fairseq-train", tiny_data, *TRAINING, "--save-dir", saved, "--max-update", 2)
    checkpoint = saved / "checkpoint_last.pt"
    generate = ["--user-dir", USER_DIR, "--path", checkpoint, "--cpu", "--beam", 2, "--max-len-b", 3]
    assert "H-0\t" in run_tool("fairseq-generate", tiny_data, *generate).stdout
    message = f"checkpoint {checkpoint}: was trained with another dictionary of 'xx' than these data have"
    assert message in run_tool("fairseq-generate", reordered, *generate, fails=True).error
    again = ["--save-dir", saved, "--max-update", 4]
    assert message in run_tool("fairseq-train", reordered, *TRAINING, *again, fails=True).error
    assert "num_updates 4" in run_tool("fairseq-train", tiny_data, *TRAINING, *again).stdout
