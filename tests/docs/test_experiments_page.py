"""The page on experiments: every command runs, in its order, on a small corpus."""

import os
from pathlib import Path

import pytest
from in_process import run_tool

from cli import TINY, USER_DIR
from documentation import REPO, fenced, run_script

PAGE = REPO / "docs" / "experiments.md"
CHECKPOINTS = ["tuned", "tuned.frozen", "tuned.restored", "trainings/adm.seed2", "trainings/soft.seed1"]
BASH = """
fairseq-train() { command fairseq-train "$@" %s --no-progress-bar > /dev/null; }
fairseq-generate() { command fairseq-generate "$@" > generated; }
"""


def prepare(text: Path, folder: Path) -> None:
    """Files of the names that the page has, in a folder."""
    (folder / "fairseq_attn_plugin").symlink_to(USER_DIR)
    for ours, theirs in (("xx", "de"), ("yy", "en")):
        for split in ("train", "valid", "test"):
            lines = (text / f"{split}.{ours}").read_text()
            (folder / f"{split}.bpe.{theirs}").write_text(lines)
            (folder / f"new.{split}.bpe.{theirs}").write_text("".join(lines.splitlines(keepends=True)[:30]))
    prefixes = [word for split in ("train", "valid", "test") for word in (f"--{split}pref", folder / f"{split}.bpe")]
    languages = ["--source-lang", "de", "--target-lang", "en"]
    run_tool("fairseq-preprocess", *languages, *prefixes, "--destdir", folder / "data")


def test_every_command_runs(tiny_data, tmp_path, warm_path):
    pytest.importorskip("matplotlib")
    prepare(tiny_data.parent / "text", tmp_path)
    blocks = list(fenced(PAGE, "bash"))
    sizes = " ".join(TINY["lstm_adm"][2:])
    run_script(BASH % sizes + "\n".join(blocks), tmp_path, warm_path)
    assert all((tmp_path / folder / "checkpoint_best.pt").is_file() for folder in CHECKPOINTS)
    assert (tmp_path / "trainings" / "soft.seed1" / "checkpoint8.pt").is_file()
    assert "Generate test with beam=5" in (tmp_path / "generated").read_text()
    report = (tmp_path / "report" / "report.md").read_text(encoding="utf-8")
    assert "\n| adm " in report
    assert {"compare.html", "average.pt", "best3.pt", "ensemble.jsonl"} <= set(os.listdir(tmp_path))
