"""Checkpoints are written as a whole, also where ``kill -9`` ends a real training at random moments.

Three kills, or as many as FAIRSEQ_ATTN_KILLS says: ``FAIRSEQ_ATTN_KILLS=20 pytest tests/patches -k random_moments``.
"""

import errno
import itertools
import os
import random
import shutil
import time

import pytest
import torch
from fairseq import checkpoint_utils
from in_process import run_tool
from resuming import command, differences

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.patches import resuming

from cli import TINY, run_cli, start_cli

LAST = "checkpoint_last.pt"
KILLS = int(os.environ.get("FAIRSEQ_ATTN_KILLS") or 3)
A_TRAINING = 3  # kills


@pytest.fixture
def trained(tiny_data, once):
    """Two epochs with a checkpoint each, and within them; to be copied."""

    def make(folder):
        run_tool(*command(tiny_data, "lstm_soft", folder, "--max-epoch", 2))

    return once("whole_checkpoints", make)


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
def test_no_room_for_a_checkpoint_or_for_a_copy(failing, tiny_data, trained, tmp_path, monkeypatch):
    """In the training of one more epoch."""
    folder = shutil.copytree(trained, tmp_path / "run")
    words, before, calls = command(tiny_data, "lstm_soft", folder), contents(folder), []

    def fsync(descriptor):
        calls.append(descriptor)
        if len(calls) == failing:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        error = run_tool(*words, fails=True).error
    assert "cannot be written (earlier ones are whole: make room, and the same command goes on): No space" in error
    after = contents(folder)
    assert {name: after[name] for name in before} == before
    assert set(after) - set(before) == {"checkpoint_3_12.pt"} if failing == 2 else after == before
    run_tool(*words)
    assert set(contents(folder)) - set(before) == {"checkpoint3.pt", "checkpoint_3_12.pt"}


def test_a_full_disk_reaches_torchs_own_writer(tmp_path):
    """Its message is about its format."""
    full = pytest.raises(OptionError, match="last.pt cannot be written .*: No space left on device$")
    with full, resuming._whole(str(tmp_path / "last.pt")), open("/dev/full", "wb") as stream:
        torch.save(torch.zeros(100_000), stream)
    assert list(tmp_path.iterdir()) == []


# ---- kills


def begun(words):
    """A process that has begun to train, or nothing: a kill after the last save leaves nothing to do."""
    process = start_cli(*words)
    log = []
    for line in process.stdout:
        log.append(line)
        if "Start iterating over samples" in line:
            return process
    assert process.wait() == 0 and "nothing to do" in "".join(log), "".join(log)[-4000:]
    return None


def killed_after(process, seconds):
    time.sleep(seconds)
    process.kill()
    output = process.communicate()[0]  # ends when the last process that writes there has ended
    assert process.returncode in (0, -9), output[-4000:]
    return process.returncode == -9


def test_kills_at_random_moments(tiny_data, tmp_path, capsys):
    seed, kills = random.randrange(1000), 0
    chosen = random.Random(seed)
    # more than are needed: a process may end before its kill
    for number, arch in enumerate(itertools.islice(itertools.cycle(["lstm_latent", *TINY]), KILLS + 5)):
        options = ["--save-interval-updates", 1, "--keep-interval-updates", 2, "--num-workers", 1]
        words = [command(tiny_data, arch, tmp_path / f"{number}-{part}", *options) for part in ("whole", "killed")]
        process, started = begun(words[0]), time.monotonic()
        process.communicate()
        lasts, folder = time.monotonic() - started, tmp_path / f"{number}-killed"
        for _ in range(A_TRAINING):
            process = begun(words[1])
            if process is None or not killed_after(process, chosen.uniform(0, lasts / A_TRAINING)):
                break
            kills += 1
            for path in folder.glob("*.pt"):
                torch.load(path)  # whole
        run_cli(*words[1])
        assert differences(tmp_path / f"{number}-whole" / LAST, folder / LAST) == [], (arch, seed)
        assert not list(folder.glob("*.partial")) and len(list(folder.glob("*.pt"))) == 7
        if kills >= KILLS:
            break
    assert kills, "every training ended before its kill"
    with capsys.disabled():
        print(f" {kills} kills in {number + 1} trainings ", end="")
