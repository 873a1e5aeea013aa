"""Checkpoints are written as a whole."""

import errno
import os
import shutil

import pytest
from fairseq import checkpoint_utils
from in_process import run_tool
from resuming import command
from training import error_line

from cli import run_cli

LAST = "checkpoint_last.pt"


@pytest.fixture
def trained(tiny_data, once):
    """Two epochs with a checkpoint each, and within them; to be copied."""

    def make(folder):
        run_tool(*command(tiny_data, "lstm_soft", folder, "--max-epoch", 2))

    return once("whole_checkpoints", make)


@pytest.fixture
def run(tiny_data, trained, tmp_path):
    """A copy of the trained folder, and the training of one more epoch in it."""
    folder = tmp_path / "run"
    shutil.copytree(trained, folder)
    return folder, command(tiny_data, "lstm_soft", folder)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_copies_are_made_beside_their_places(tmp_path, monkeypatch):
    """A copy that is interrupted leaves the old file, and does not write into files that are linked."""
    source, target, linked = (tmp_path / name for name in ("one.pt", "two.pt", "three.pt"))
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    os.link(target, linked)
    copy = checkpoint_utils.PathManager.copy
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "copyfileobj", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            copy(str(source), str(target), overwrite=True)
    assert target.read_bytes() == b"old"
    assert copy(str(source), str(target), overwrite=True)
    assert (target.read_bytes(), linked.read_bytes()) == (b"new", b"old")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.pt", "three.pt", "two.pt"]
    source.write_bytes(b"other")
    assert target.read_bytes() == b"new", "a copy, not a link"


def test_links(tmp_path):
    """A link to another folder stays; one to a checkpoint beside it gives way, and that one stays as it is."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "run").mkdir()
    source, kept, last, best = (tmp_path / "run" / name for name in ("1.pt", "2.pt", LAST, "checkpoint_best.pt"))
    source.write_bytes(b"new")
    kept.write_bytes(b"old")
    last.symlink_to(tmp_path / "disk" / LAST)
    best.symlink_to(kept.name)
    for path in (last, best):
        assert checkpoint_utils.PathManager.copy(str(source), str(path), overwrite=True)
    assert last.is_symlink() and (tmp_path / "disk" / LAST).read_bytes() == b"new"
    assert not best.is_symlink() and (best.read_bytes(), kept.read_bytes()) == (b"new", b"old")


@pytest.mark.parametrize("failing", [1, 2])
def test_no_room_for_a_checkpoint_or_for_a_copy(run, failing, monkeypatch):
    folder, words = run
    before, calls = contents(folder), []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        error = run_tool(*words, fails=True).error
    assert "cannot be written: No space left on device; the earlier checkpoints are whole" in error
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"checkpoint_3_12.pt"} if failing == 2 else after == before
    run_tool(*words)
    assert set(contents(folder)) - set(before) == {"checkpoint3.pt", "checkpoint_3_12.pt"}


def test_a_file_that_may_not_grow(run):
    """The limit of the system reaches torch's own writer, whose message is about its format."""
    folder, words = run
    before = contents(folder)
    tool, *options = map(str, words)
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000)); "
        f"sys.argv = {[tool, *options]!r}; from fairseq_cli.train import cli_main; cli_main()"
    )
    (folder.parent / "limited.py").write_text(code)
    done = run_cli(folder.parent / "limited.py", check=False)
    error_line(done, ["checkpoint_3_12.pt cannot be written: File too large"])
    assert contents(folder) == before
