"""One training a folder; nothing is trained by mistake."""

import gc
import multiprocessing
import os
import re
import sys

import fairseq
import portalocker
import pytest
from in_process import run_tool
from resuming import command, train_and_die

from fairseq_attn_plugin.patches import save_dir

from cli import run_cli, start_cli


@pytest.fixture
def words(tiny_data, tmp_path):
    def of(*options):
        return command(tiny_data, "lstm_soft", tmp_path / "run", "--max-epoch", 1, *options)

    return of


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_second_training_is_refused_until_the_first_has_ended(words, tmp_path):
    folder = tmp_path / "run"
    first = start_cli(*words("--max-epoch", 9999))
    try:
        for line in first.stdout:
            if "Start iterating" in line:
                break
        error = run_tool(*words(), fails=True).error
        assert error.startswith(f"--save-dir {folder}: another training is writing there")
    finally:
        first.kill()
    first.wait()
    run_tool(*words("--max-epoch", 9999, "--max-update", 1))


def test_the_lock_ends_with_the_training(words, tmp_path):
    run_tool(*words("--max-update", 1))
    train_and_die(words(), 3)
    gc.collect()  # a trainer may be in a cycle of references
    assert save_dir._held == []


def test_the_lock_ends_although_a_process_that_loads_data_lives_on(tmp_path):
    held = save_dir._hold(str(tmp_path))
    context = multiprocessing.get_context("fork")
    started, ended = context.Event(), context.Event()
    child = context.Process(target=lambda: (started.set(), ended.wait(60)))
    child.start()
    started.wait()
    save_dir._let_go(held)
    again = save_dir._hold(str(tmp_path))
    save_dir._let_go(held)  # as a trainer does that is forgotten late
    assert again
    save_dir._let_go(again)
    ended.set()
    child.join()


@pytest.mark.parametrize("error", [portalocker.exceptions.LockException, OSError])
def test_without_locks_it_goes_on_with_a_warning(error, words, tmp_path, monkeypatch):
    def fails(*_):
        raise error("no locks available")

    left = tmp_path / "run" / "checkpoint_1_3.pt.tmp"
    left.parent.mkdir()
    left.write_bytes(b"of another training, perhaps")
    monkeypatch.setattr(portalocker, "lock", fails)
    log = run_tool(*words("--max-update", 1)).stdout
    assert "cannot be locked (no locks available): start no second training" in log
    assert left.exists() and save_dir._held == []


def test_a_folder_that_cannot_be_opened_is_not_locked(tmp_path):
    """As on Windows; without reading rights, too."""
    assert save_dir._hold(str(tmp_path / "none")) == []


def test_trainings_with_suffixes_share_a_folder(words, tmp_path):
    (tmp_path / "run").mkdir()
    lock = os.open(tmp_path / "run", os.O_RDONLY)
    portalocker.lock(lock, portalocker.LockFlags.EXCLUSIVE)
    left = tmp_path / "run" / "checkpoint_1_3_b.pt.tmp"
    left.write_bytes(b"half")
    run_tool(*words("--max-update", 1, "--checkpoint-suffix", "_a"))
    os.close(lock)
    run_tool(*words("--max-update", 1))
    assert sorted(times(tmp_path / "run")) == [
        *("checkpoint_1_3_b.pt.tmp", "checkpoint_best.pt", "checkpoint_best_a.pt"),
        *("checkpoint_last.pt", "checkpoint_last_a.pt"),
    ]


def test_only_the_first_process_locks(words, tmp_path, monkeypatch):
    """Model-parallel processes are all the first of their data-parallel group."""
    monkeypatch.setattr(save_dir, "_hold", lambda _: 1 / 0)
    monkeypatch.setattr(fairseq.distributed.utils, "is_master", lambda cfg: False)
    (tmp_path / "run").mkdir()
    run_tool(*words("--max-update", 1))


def test_what_a_kill_has_left_is_removed(words, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("checkpoint_last.pt.tmp", "checkpoint_1_3.pt.tmp", "notes.tmp"):
        (folder / name).write_bytes(b"half")
    run_tool(*words("--no-save"))
    assert len(times(folder)) == 3, "nothing is locked or removed"
    run_tool(*words("--max-update", 1))
    assert sorted(times(folder)) == ["checkpoint_best.pt", "checkpoint_last.pt", "notes.tmp"]


def test_a_folder_that_cannot_be_written(words, tmp_path):
    (tmp_path / "file").write_text("")
    error = run_tool(*words("--save-dir", tmp_path / "file" / "run"), fails=True).error
    assert error == f"--save-dir {tmp_path}/file/run: cannot be written (Not a directory); choose another folder"


def test_a_mistyped_restore_file_is_refused(words, tmp_path):
    error = run_tool(*words("--restore-file", tmp_path / "run" / "chekpoint1.pt"), fails=True).error
    assert error.startswith(f"--restore-file {tmp_path}/run/chekpoint1.pt: no such file; leave it out to continue")
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("target", ["unmounted/checkpoint.pt", "checkpoint_last.pt"], ids=["gone", "loop"])
def test_a_last_checkpoint_that_leads_nowhere_is_refused(target, words, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoint_best.pt").write_text("kept")
    (folder / "checkpoint_last.pt").symlink_to(target)
    error = run_tool(*words(), fails=True).error
    assert f"checkpoint_last.pt: is a link to {target}, which is not there" in error
    assert (folder / "checkpoint_best.pt").read_text() == "kept" and (folder / "checkpoint_last.pt").is_symlink()


def test_the_usual_restore_file_may_be_missing(words, tmp_path):
    words = words("--max-update", 1, "--restore-file", tmp_path / "run" / "checkpoint_last.pt")
    run_tool(*words)
    assert "nothing to do" in run_tool(*words).stdout


@pytest.mark.parametrize("limit", [("--max-update", 3), ("--patience", 2, "--lr", 1e-30)])
def test_a_training_that_has_ended_as_a_module(limit, words, tmp_path):
    """The functions of fairseq_cli.train are those of the module __main__ then."""
    _, *options = words("--max-epoch", 9, "--validate-interval-updates", 1, *limit)
    logs, saved = [], []
    for _ in range(2):
        logs.append(run_cli(sys.executable, "-m", "fairseq_cli.train", *options))
        saved.append(times(tmp_path / "run"))
    assert "nothing to do" in logs[1].stdout + logs[1].stderr and saved[0] == saved[1]


@pytest.mark.parametrize(
    "limit", [("--max-update", 3), ("--max-epoch", 1), ("--patience", 2, "--lr", 1e-30), ("--stop-time-hours", 1e-9)]
)
def test_a_training_that_has_ended_trains_no_further(limit, words, tmp_path):
    options = ["--max-epoch", 9, "--validate-interval-updates", 1, *limit]
    updates = {"--max-update": 3, "--max-epoch": 5, "--patience": 3, "--stop-time-hours": 1}[limit[0]]
    run_tool(*words(*options))
    before = times(tmp_path / "run")
    log = run_tool(*words(*options)).stdout
    lines = re.findall(r"nothing to do: the training in (\S+) has ended after (\d+) updates by (\S+) ", log)
    assert lines == [(str(tmp_path / "run"), str(updates), limit[0])]
    assert times(tmp_path / "run") == before
    raised = {"--max-update": 4, "--max-epoch": 2, "--patience": 4, "--stop-time-hours": 1}
    run_tool(*words(*options, limit[0], raised[limit[0]], "--max-update", updates + 1))
    assert times(tmp_path / "run") != before, "a higher limit"
