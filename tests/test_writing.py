"""Files that are complete or absent, and outputs that are not files."""

import os
import stat
import threading

import pytest
import torch

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import check_output, read_json, whole_file, whole_text, write_json


def test_a_file_is_there_whole_or_not_at_all(tmp_path):
    path = tmp_path / "out"
    with whole_text(path, "failed") as stream:
        stream.write("first")
        assert not path.exists()
    with pytest.raises(ZeroDivisionError), whole_text(path, "failed") as stream:
        stream.write("second")
        raise ZeroDivisionError
    assert path.read_text() == "first" and list(tmp_path.iterdir()) == [path]
    with pytest.raises(OptionError, match="failed: "), whole_text(tmp_path, "failed") as stream:
        stream.write("a folder is in the way")


def test_what_utf8_cannot_encode_is_escaped(tmp_path):
    """A file name of other bytes is a label in tables and in JSON."""
    name = os.fsdecode(b"\xff\xc3\xa4")
    write_json("--json", tmp_path / "x", {name: 1})
    assert (tmp_path / "x").read_text(encoding="utf-8") == '{\n "\\udcff\u00e4": 1\n}\n'
    assert read_json(tmp_path / "x") == {name: 1}


def test_two_processes_do_not_write_one_file(tmp_path):
    """A lock belongs to an opened file: two blocks of one process stand for those of two."""
    path = tmp_path / "out"
    with whole_text(path, "failed") as stream:
        stream.write("first, ")
        stream.flush()
        with pytest.raises(OptionError, match="^failed: another process is writing it$"), whole_text(path, "failed"):
            pass
        stream.write("whole")
    assert path.read_text() == "first, whole" and list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_named_where_torch_speaks_of_its_format(tmp_path):
    """torch's writer raises RuntimeError from what the stream raised."""
    file, failure = tmp_path / "m.pt", "--out m.pt: cannot be written"
    said = pytest.raises(OptionError, match=f"{failure}: No space left on device")
    with said, whole_file(file, failure), open("/dev/full", "wb") as stream:
        torch.save({"a": torch.zeros(100_000)}, stream)
    with pytest.raises(RuntimeError, match="another fault"), whole_file(tmp_path / "m.pt", "failure"):
        raise RuntimeError("another fault")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_what_is_no_file_is_written_to_and_stays(tmp_path):
    """A pipe in the place of /dev/null, which a test that failed would take from the whole machine."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    read = []
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    with whole_text(path, "failed") as stream:
        stream.write("text")
    reader.join(timeout=10)
    assert read == ["text"] and stat.S_ISFIFO(path.stat().st_mode)
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_link_points_to_is_written(tmp_path):
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_text("old")
    link.symlink_to(real)
    with whole_text(link, "failed") as stream:
        stream.write("new")
    assert link.is_symlink() and real.read_text() == "new"


def test_a_file_that_is_read_is_not_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(OptionError, match="--out .*link: is one of the files that are read, and would be lost"):
        check_output("--out", tmp_path / "link", [None, tmp_path / "in"])
    for name in ("a=in", "./in", f"a={tmp_path}/in"):
        with pytest.raises(OptionError, match="would be lost"):
            check_output("--out", tmp_path / "in", [name])
    check_output("--out", tmp_path / "in", ["a=b"])
    check_output("--out", tmp_path / "other", [tmp_path / "in"])
    (tmp_path / "model.pt").touch()
    with pytest.raises(OptionError, match="^--out .*model.pt: is a checkpoint, and would be lost$"):
        check_output("--out", tmp_path / "model.pt", [])
    check_output("--out", tmp_path / "model.pt", [], checkpoint=True)
    for name, reason in (
        ("no/x", "there is no folder .*no"),
        (".", "it is a folder; name a file"),
        ("in/x", "there is"),
    ):
        with pytest.raises(OptionError, match=f"^--out .*: cannot be written: {reason}"):
            check_output("--out", tmp_path / name, [])
    check_output("--out", None, [tmp_path / "in"])
    check_output("--out", "/dev/null", ["/dev/null"])
