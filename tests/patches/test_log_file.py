"""Each line of a training stands in its --log-file once."""

from collections import Counter

from in_process import run_tool

from cli import TINY, USER_DIR


def test_lines_stand_in_the_file_once(tiny_data, tmp_path):
    command = [
        "fairseq-train",
        tiny_data,
        "--user-dir",
        USER_DIR,
        *TINY["lstm_soft"],
        "--optimizer",
        "sgd",
        "--no-save",
    ]
    command += ["--no-save", "--batch-size", 200, "--max-epoch", 2, "--lr", 0.1, "--log-interval", 1]
    run_tool(*command, "--log-file", tmp_path / "log")
    lines = Counter(line for line in (tmp_path / "log").read_text().splitlines() if line.startswith("epoch "))
    assert set(lines.values()) == {1}, lines
    assert sum("valid on 'valid' subset" in line for line in lines) == 2
    assert {line[:9] for line in lines} == {"epoch 001", "epoch 002"}
