"""Fixtures of the tests of preparation: the command in this process, and an empty folder for a corpus."""

from pathlib import Path
from typing import Any, Callable, NamedTuple

import pytest

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.corpora import tools
from fairseq_attn_plugin.errors import OptionError

from cli import usual_environment


class Result(NamedTuple):
    """What the command printed, and its error; empty without one."""

    stdout: str
    stderr: str
    error: str
    out: Path

    def lines(self, name: str) -> list[str]:
        """The lines of ``text/NAME``."""
        return (self.out / "text" / name).read_text(encoding="utf-8").splitlines()


@pytest.fixture
def prepare(capfd: Any, tmp_path: Path, monkeypatch: Any, warm_path: str) -> Callable[..., Result]:
    """Runs ``fairseq-attn prepare NAME --subwords none`` into ``tmp_path / "out"``, with other options by name."""
    monkeypatch.setattr(tools, "environment", lambda: {**usual_environment(), "PATH": warm_path})

    def run(name: str, check: bool = True, **options: Any) -> Result:
        capfd.readouterr()
        usual = {} if name.endswith("_han") or "subword_size" in options else {"subwords": "none"}
        words = ["prepare", name]
        for option, value in {"out": tmp_path / "out", "jobs": 1, **usual, **options}.items():
            words += ["--" + option.replace("_", "-"), *([] if value is True else [str(value)])]
        error = ""
        try:
            cli.main(words)
        except OptionError as refused:
            error = str(refused)
        assert not (check and error), error
        assert "\n" not in error
        return Result(*capfd.readouterr(), error, Path(options.get("out", tmp_path / "out")))

    return run


@pytest.fixture
def corpus_folder(tmp_path: Path) -> Path:
    """An empty folder for a miniature corpus."""
    folder = tmp_path / "data"
    folder.mkdir()
    return folder
