"""Nothing is trained by mistake: what is not there is refused, and a training that has ended is left alone."""

import re
import sys

import pytest
from in_process import run_tool
from resuming import command

from cli import run_cli


@pytest.fixture
def words(tiny_data, tmp_path):
    def of(*options):
        return command(tiny_data, "lstm_soft", tmp_path / "run", "--max-epoch", 1, *options)

    return of


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_a_folder_that_cannot_be_written(words, tmp_path):
    (tmp_path / "file").write_text("")
    error = run_tool(*words("--save-dir", tmp_path / "file" / "run"), fails=True).error
    assert error == f"--save-dir {tmp_path}/file/run: Not a directory"


def test_a_mistyped_restore_file_is_refused(words, tmp_path):
    error = run_tool(*words("--restore-file", tmp_path / "run" / "chekpoint1.pt"), fails=True).error
    assert error.startswith(f"--restore-file {tmp_path}/run/chekpoint1.pt: no such file; leave it out")
    assert list((tmp_path / "run").iterdir()) == []


@pytest.mark.parametrize("target", ["unmounted/checkpoint.pt", "checkpoint_last.pt"], ids=["gone", "loop"])
def test_a_last_checkpoint_that_leads_nowhere_is_refused(target, words, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoint_best.pt").write_text("kept")
    (folder / "checkpoint_last.pt").symlink_to(target)
    error = run_tool(*words(), fails=True).error
    assert error.startswith(f"{folder}/checkpoint_last.pt: is a link to a file that is not there")
    assert (folder / "checkpoint_best.pt").read_text() == "kept" and (folder / "checkpoint_last.pt").is_symlink()


def test_a_training_that_has_ended_as_a_module(words, tmp_path):
    """The functions of fairseq_cli.train are those of the module __main__ then."""
    _, *options = words("--max-epoch", 9, "--validate-interval-updates", 1, "--patience", 2, "--lr", 1e-30)
    run_cli(sys.executable, "-m", "fairseq_cli.train", *options)
    saved = times(tmp_path / "run")
    done = run_cli(sys.executable, "-m", "fairseq_cli.train", *options)
    assert "nothing to do" in done.stdout + done.stderr and saved == times(tmp_path / "run")


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
