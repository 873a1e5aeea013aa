"""Each line of a training stands in its --log-file once."""

from collections import Counter

from in_process import run_tool

from cli import TINY, USER_DIR


def test_lines_stand_in_the_file_once(tiny_data, tmp_path):
    for name in ("first", "second"):  # in one process
        command = ["fairseq-train", tiny_data, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd"]
        command += ["--batch-size", 100, "--max-epoch", 3, "--lr", 0.1, "--no-save", "--log-interval", 1]
        run_tool(*command, "--log-file", tmp_path / name)
    for name in ("first", "second"):
        lines = Counter(line for line in (tmp_path / name).read_text().splitlines() if line.startswith("epoch "))
        assert set(lines.values()) == {1}, lines
        assert sum("valid on 'valid' subset" in line for line in lines) == 3
        assert {line[:9] for line in lines} == {"epoch 001", "epoch 002", "epoch 003"}
