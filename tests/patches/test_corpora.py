"""What fairseq-preprocess and the first reading of its data say about texts that do not suit."""

from pathlib import Path
from typing import Any

import pytest
from fairseq import options
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_dataset
from fairseq_cli import preprocess
from in_process import run_tool

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches import corpora
from fairseq_attn_plugin.patches.corpora import PATCH, count_lines, line_offsets, lines_between

from cli import TINY, USER_DIR, run_cli

WRONG = {
    "latin1": ("gr\xfcn\nein\n".encode("latin-1"), "train.xx: is not UTF-8 after line 0 .*iconv -f latin1"),
    "utf16": ("ama\nbel\n".encode("utf-16-le"), "train.xx, line 1: has NUL bytes; convert the text to UTF-8"),
    "bom": ("ama\nbel\n".encode("utf-8-sig"), "train.xx: begins with a byte-order mark"),
    "empty": (b"", "train.xx: is empty"),
    "short": (b"ama\n", "train.xx has 1 lines and .*train.yy has 2: must have the same number"),
    "old Mac": (b"ama\rbel\rcor\n", r"train.xx, line 1: has a carriage return \(CR\) that does not end the line"),
    "within": (b"ama\r\nbel\rcor\n", "train.xx, line 2: has a carriage return .*; replace it by a space"),
}


def arguments(folder: Path, *others: str) -> Any:
    """The parsed command line for texts in a folder."""
    command = ["-s", "xx", "-t", "yy", "--trainpref", str(folder / "train"), "--destdir", str(folder / "bin"), *others]
    return options.get_preprocessing_parser().parse_args(command)


@pytest.fixture(autouse=True)
def installed() -> None:
    PATCH.install()


@pytest.mark.parametrize("name", WRONG)
def test_a_text_is_refused(name: str, tmp_path: Path) -> None:
    content, message = WRONG[name]
    (tmp_path / "train.xx").write_bytes(content)
    (tmp_path / "train.yy").write_text("u v\nw\n")
    with pytest.raises(OptionError, match=message):
        preprocess.main(arguments(tmp_path))


def test_a_missing_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="train.xx: cannot be read: No such file"):
        preprocess.main(arguments(tmp_path))


def test_alignments_have_a_line_for_each_pair(tmp_path: Path) -> None:
    for side in ("xx", "yy"):
        (tmp_path / f"train.{side}").write_text("ama\nbel\n")
    (tmp_path / "train.align").write_text("0-0\n")
    with pytest.raises(OptionError, match=r"train.xx has 2 lines and .*train.align has 1"):
        preprocess.main(arguments(tmp_path, "--align-suffix", "align"))


def test_lines_of_windows_empty_lines_and_single_words_are_texts(tmp_path: Path) -> None:
    (tmp_path / "train.xx").write_bytes(b"ama bel\r\n\r\ncor\r\n")
    (tmp_path / "train.yy").write_bytes(b"ama\n\nbel")
    assert count_lines(str(tmp_path / "train.yy")) == 3
    preprocess.main(arguments(tmp_path))
    words = (tmp_path / "bin" / "dict.xx.txt").read_text().split("\n")
    assert {line.split(" ")[0] for line in words if line} >= {"ama", "bel", "cor"} and "\r" not in "".join(words)


@pytest.mark.parametrize("workers", [1, 2, 8, 500])
def test_chunks_of_lines_are_the_lines(workers: int, tmp_path: Path) -> None:
    text = "".join(f"wörter {n} {'ö' * (n % 7)}\r\n" + "\r\n" * (n % 3) for n in range(100)) + "last"
    path = tmp_path / "text"
    path.write_bytes(text.encode())
    offsets = line_offsets(str(path), workers)
    found = []
    for start, end in zip(offsets, offsets[1:]):
        with lines_between(str(path), start, end) as lines:
            found += list(lines)
    assert len(offsets) == workers + 1 and found == text.splitlines(keepends=True)


def test_several_workers_binarise_each_line_of_windows_once(tmp_path: Path) -> None:
    for side in ("xx", "yy"):
        lines = [f"wort{n} {side} mann" for n in range(400)]
        (tmp_path / f"train.{side}").write_bytes("".join(f"{line}\r\n\r\n" for line in lines).encode())
    preprocess.main(arguments(tmp_path, "--workers", "8"))
    for side in ("xx", "yy"):
        dictionary = Dictionary.load(str(tmp_path / "bin" / f"dict.{side}.txt"))
        data = make_dataset(str(tmp_path / "bin" / f"train.xx-yy.{side}"), "mmap")
        found = [dictionary.string(data[number]) for number in range(len(data))]
        assert found == [text for n in range(400) for text in (f"wort{n} {side} mann", "")]


def test_what_was_written_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for side in ("xx", "yy"):
        (tmp_path / f"train.{side}").write_text("ama\nbel\n")
    monkeypatch.setattr(corpora, "line_offsets", lambda path, chunks: [0, 4])
    with pytest.raises(OptionError, match="train.xx: has 2 lines, and .* holds 1; try --workers 1"):
        preprocess.main(arguments(tmp_path))


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.xx").write_text("ama\n")
    (tmp_path / "train.yy").write_text("ama\nbel\n")
    command = ["fairseq-preprocess", "-s", "xx", "-t", "yy", "--trainpref", tmp_path / "train", "--destdir", tmp_path]
    done = run_cli(*command, "--user-dir", USER_DIR, check=False)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert line.startswith(f"fairseq-preprocess: error: {tmp_path}/train.xx has 1 lines and {tmp_path}/train.yy has 2")


def test_a_training_names_what_stock_preprocessing_let_pass(tiny_data: Path, tmp_path: Path) -> None:
    for path in tiny_data.iterdir():
        name = path.name.replace("valid.xx-yy.yy", "other").replace("train.xx-yy.yy", "valid.xx-yy.yy")
        (tmp_path / name).write_bytes(path.read_bytes())
        if "train.xx-yy.yy" in path.name:
            (tmp_path / path.name).write_bytes(path.read_bytes())
    command = ["fairseq-train", tmp_path, "--user-dir", USER_DIR, *TINY["lstm_soft"], "--optimizer", "sgd"]
    command += ["--lr", 0.1, "--max-tokens", 500, "--max-update", 1, "--save-dir", tmp_path / "save"]
    assert "different numbers of source and target sentences" in run_tool(*command, fails=True).error
