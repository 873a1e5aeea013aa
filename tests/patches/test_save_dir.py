"""One training a folder; nothing is trained by mistake."""

import gc
import multiprocessing
import re
import sys
from types import SimpleNamespace

import fairseq.distributed.utils
import portalocker
import pytest
from in_process import run_tool
from resuming import command, train_and_die

from fairseq_attn_plugin.patches import resuming

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
    assert resuming._held == []


def test_the_lock_ends_although_a_process_that_loads_data_lives_on(tmp_path):
    held = resuming._hold(str(tmp_path))
    context = multiprocessing.get_context("fork")
    started, ended = context.Event(), context.Event()
    child = context.Process(target=lambda: (started.set(), ended.wait(60)))
    child.start()
    started.wait()
    resuming._let_go(held)
    again = resuming._hold(str(tmp_path))
    resuming._let_go(held)  # as a trainer does that is forgotten late
    assert again
    resuming._let_go(again)
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
    assert left.exists() and resuming._held == []


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


def test_a_training_that_has_ended_as_a_module(words, tmp_path):
    """The functions of fairseq_cli.train are those of the module __main__ then."""
    _, *options = words("--max-epoch", 9, "--validate-interval-updates", 1, "--patience", 2, "--lr", 1e-30)
    run_cli(sys.executable, "-m", "fairseq_cli.train", *options)
    saved = times(tmp_path / "run")
    done = run_cli(sys.executable, "-m", "fairseq_cli.train", *options)
    assert "nothing to do" in done.stdout + done.stderr and saved == times(tmp_path / "run")


@pytest.mark.parametrize(
    "change",
    [{"no_save": True}, {"checkpoint_suffix": "_a"}, {"first": False}, {"save_dir": "s3://none"}],
    ids=lambda change: next(iter(change)),
)
def test_who_does_not_lock(change, tmp_path, monkeypatch):
    """Trainings with suffixes share a folder, model-parallel processes, too."""
    monkeypatch.setattr(resuming, "_hold", lambda _: 1 / 0)
    options = {"no_save": False, "checkpoint_suffix": "", "save_dir": str(tmp_path), "first": True, **change}
    monkeypatch.setattr(fairseq.distributed.utils, "is_master", lambda _: options["first"])
    cfg = SimpleNamespace(checkpoint=SimpleNamespace(**options), distributed_training=None)

    def start(self, cfg):
        self.cfg = cfg

    resuming._alone(start)(SimpleNamespace(checkpoint_suffix=""), cfg)


@pytest.mark.parametrize("limit", [("--max-update", 3), ("--patience", 2, "--lr", 1e-30), ("--stop-time-hours", 1e-9)])
def test_a_training_that_has_ended_trains_no_further(limit, words, tmp_path):
    options = ["--max-epoch", 9, "--validate-interval-updates", 1, *limit]
    updates = {"--max-update": 3, "--patience": 3, "--stop-time-hours": 1}[limit[0]]
    run_tool(*words(*options))
    before = times(tmp_path / "run")
    log = run_tool(*words(*options)).stdout
    lines = re.findall(r"nothing to do: the training in (\S+) has ended after (\d+) updates by (\S+) ", log)
    assert lines == [(str(tmp_path / "run"), str(updates), limit[0])]
    assert times(tmp_path / "run") == before
