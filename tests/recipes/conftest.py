"""Fixtures of the recipes' tests: a recipe in this process, and the commands of a dry run."""

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, List, NamedTuple

import pytest

from fairseq_attn_plugin.recipes.cli import main
from fairseq_attn_plugin.recipes.commands import Shell

from cli import prepare


class Result(NamedTuple):
    """What a recipe printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


Recipe = Callable[..., Result]


def execute(shell: Shell, words: List[str], stdout: Any = None, stderr: Any = None) -> int:
    """Runs a tool of a recipe as the other tests run tools."""
    command, environment = prepare(sys.executable if words[0] == "python" else words[0], *words[1:])
    if command[0] == command[1]:
        command = command[1:]
    sys.stdout.flush()
    return subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr).returncode


@pytest.fixture
def recipe(capfd: Any, monkeypatch: Any) -> Recipe:
    """Runs a recipe in this process with an environment of its own."""
    monkeypatch.setattr(Shell, "execute", execute)
    monkeypatch.delenv("FAIRSEQ_ATTN_TRACEBACK", raising=False)

    def run(name: str, *arguments: object, check: bool = True, **environment: object) -> Result:
        capfd.readouterr()
        values = {"DEVICE": "cpu", "JOBS": "1", **{key: str(value) for key, value in environment.items()}}
        status = main([name, *map(str, arguments)], values)
        result = Result(status, *capfd.readouterr())
        if check:
            assert status == 0, result.stdout[-3000:] + result.stderr[-3000:]
        return result

    return run


@pytest.fixture
def shown(recipe: Recipe) -> Callable[..., List[List[str]]]:
    """The commands of a dry run, as words; steps inside Python are ``["#", ...]``."""

    def commands(name: str, *arguments: object, **environment: object) -> List[List[str]]:
        out = recipe(name, *arguments, DRY_RUN=1, **environment).stdout
        lines = [line for line in out.splitlines() if not line.startswith("[")]
        return [line.split() if line.startswith("# ") else shlex.split(line) for line in lines]

    return commands


@pytest.fixture
def corpus_folder(tmp_path: Path) -> Path:
    """An empty folder for a miniature corpus."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder
