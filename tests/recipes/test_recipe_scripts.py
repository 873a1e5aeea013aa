"""The scripts that a user runs: they name their recipe, and find an environment with the tools."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_attn_plugin.recipes import datasets
from fairseq_attn_plugin.recipes.cli import manual

from cli import REPO

SCRIPTS = REPO / "scripts" / "recipes"


def run(script, *arguments, cwd=None, **environment):
    return subprocess.run(
        ["bash", str(script), *arguments], env=environment, cwd=cwd, text=True, capture_output=True, timeout=300
    )


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.sh")), ids=lambda path: path.name)
def test_bash_parses(script):
    subprocess.run(["bash", "-n", str(script)], check=True)


def test_every_recipe_has_a_script_of_one_line():
    names = {path.stem for path in SCRIPTS.glob("[a-z]*.sh")}
    assert names == set(datasets.names())
    for name in names:
        code = [line for line in (SCRIPTS / f"{name}.sh").read_text().splitlines() if not line.startswith("#")]
        assert code == [f'exec bash "$(dirname "${{BASH_SOURCE[0]}}")/_run.sh" {name} "$@"']


def test_a_script_runs_its_recipe_from_any_folder(tmp_path, recipe):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    words = ["train", "--dry-run", "--", "--max-epoch", "2"]
    done = run(SCRIPTS / "multi30k.sh", *words, cwd=tmp_path, PATH=path, DEVICE="cpu", OUT="out", ARCH="lstm")
    assert done.returncode == 0, done.stderr
    assert f"--save-dir {tmp_path}/out/de-en.subword-nmt8000/lstm.seed1 " in done.stdout
    assert done.stdout == recipe("multi30k", *words, OUT=tmp_path / "out", ARCH="lstm").stdout


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the runner alone, and a PATH without Python."""
    (tmp_path / "scripts" / "recipes").mkdir(parents=True)
    runner = tmp_path / "scripts" / "recipes" / "_run.sh"
    runner.write_bytes((SCRIPTS / "_run.sh").read_bytes())
    (tmp_path / "bin").mkdir()
    for tool in ("bash", "dirname"):
        found = next(Path(folder) / tool for folder in os.environ["PATH"].split(":") if (Path(folder) / tool).exists())
        (tmp_path / "bin" / tool).symlink_to(found)
    return tmp_path


def python_in(folder, has_tools):
    """A stand-in that answers whether the tools are there, and shows what it is asked to run."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        "#!/bin/sh",
        f'[ "$1" != -c ] || exit {0 if has_tools else 1}',
        'echo "$0" "$@"',
        "echo $PYTHONPATH",
        "exit 3",
    ]
    (folder / "python").write_text("\n".join(lines) + "\n")
    (folder / "python").chmod(0o755)


def test_without_an_environment_the_script_asks_for_the_set_up(checkout):
    python_in(checkout / "bin", has_tools=False)
    done = run(checkout / "scripts" / "recipes" / "_run.sh", "multi30k", PATH=str(checkout / "bin"))
    (line,) = done.stderr.splitlines()
    assert done.returncode == 1 and line.startswith("multi30k: no environment with fairseq, ")
    assert "bash scripts/setup.sh" in line and str(checkout) in line


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_the_manual_needs_no_environment(option, tmp_path):
    python_in(tmp_path, has_tools=False)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = run(SCRIPTS / "multi30k.sh", "train", option, PATH=path)
    assert (done.returncode, done.stdout, done.stderr) == (0, manual("multi30k"), "")


@pytest.mark.parametrize("active", [True, False])
def test_the_active_environment_comes_before_that_of_the_checkout(active, checkout):
    python_in(checkout / "bin", has_tools=active)
    python_in(checkout / ".venv" / "bin", has_tools=True)
    done = run(checkout / "scripts" / "recipes" / "_run.sh", "multi30k", "a b", "-x", PATH=str(checkout / "bin"))
    assert done.returncode == 3, "the status of the recipe"
    command, path = done.stdout.splitlines()
    chosen = checkout / ("bin" if active else ".venv/bin") / "python"
    assert shlex.split(command) == [str(chosen), "-m", "fairseq_attn_plugin.recipes", "multi30k", "a", "b", "-x"]
    assert path == str(checkout)
