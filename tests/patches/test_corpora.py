"""What fairseq-preprocess and the first reading of its data say about texts that do not suit."""

from pathlib import Path
from typing import Any

import pytest
from fairseq import options
from fairseq_cli import preprocess

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches.data_folders import CORPORA

from cli import USER_DIR, run_cli

WRONG = {
    "latin1": ("gr\xfcn\nein\n".encode("latin-1"), "train.xx: is not UTF-8 after line 0 .*iconv -f latin1"),
    "utf16": ("ama\nbel\n".encode("utf-16-le"), "train.xx, line 1: has NUL bytes; convert the text to UTF-8"),
    "bom": ("ama\nbel\n".encode("utf-8-sig"), "train.xx: begins with a byte-order mark"),
    "empty": (b"", "train.xx: is empty"),
    "short": (b"ama\n", "train.xx has 1 lines and .*train.yy has 2: must have the same number"),
    "Windows": (b"ama\nbel\r\n", r"train.xx, line 2: has a carriage return \(CR\); convert the text to lines that end"),
}


def arguments(folder: Path, *others: str) -> Any:
    """The parsed command line for texts in a folder."""
    command = ["-s", "xx", "-t", "yy", "--trainpref", str(folder / "train"), "--destdir", str(folder / "bin"), *others]
    return options.get_preprocessing_parser().parse_args(command)


@pytest.fixture(autouse=True)
def installed() -> None:
    CORPORA.install()


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


def test_the_command(tmp_path: Path) -> None:
    (tmp_path / "train.xx").write_text("ama\n")
    (tmp_path / "train.yy").write_text("ama\nbel\n")
    command = ["fairseq-preprocess", "-s", "xx", "-t", "yy", "--trainpref", tmp_path / "train", "--destdir", tmp_path]
    done = run_cli(*command, "--user-dir", USER_DIR, check=False)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert line.startswith(f"fairseq-preprocess: error: {tmp_path}/train.xx has 1 lines and {tmp_path}/train.yy has 2")
