"""Fixtures of the recipes' tests: a recipe in this process, and its tools without their imports."""

import shlex
from pathlib import Path
from typing import Any, Callable, Iterator, List, NamedTuple

import pytest
from recipe_tools import ToolServer

from fairseq_attn_plugin.recipes.cli import main
from fairseq_attn_plugin.recipes.commands import Shell


class Result(NamedTuple):
    """What a recipe printed, and its exit status."""

    returncode: int
    stdout: str
    stderr: str


Recipe = Callable[..., Result]


@pytest.fixture(scope="session")
def tool_server() -> Iterator[ToolServer]:
    server = ToolServer()
    yield server
    server.close()


@pytest.fixture
def recipe(tool_server: ToolServer, capfd: Any, monkeypatch: Any) -> Recipe:
    """Runs a recipe in this process with an environment of its own; its tools run in children of a server."""
    monkeypatch.setattr(Shell, "execute", lambda shell, *args, **options: tool_server.execute(*args, **options))
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
