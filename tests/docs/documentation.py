"""The pages of the documentation, and the commands and code in them."""

import json
import re
import shlex
from functools import lru_cache
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple

from cli import REPO, run_bash, usual_environment

PAGES = sorted(
    path
    for path in [
        *REPO.glob("*.md"),
        *(REPO / "docs").rglob("*.md"),
        REPO / "benchmarks" / "README.md",
        REPO / "benchmarks" / "results" / "README.md",
    ]
    if "_build" not in path.relative_to(REPO).parts
)


@lru_cache(maxsize=None)
def runs(name: str) -> Dict[str, Any]:
    """The runs of ``benchmarks/results/NAME.jsonl`` by their names."""
    lines = (REPO / f"benchmarks/results/{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return {run["run"]: run for run in map(json.loads, lines)}


def runs_of(name: str, system: str) -> List[Any]:
    """The runs SYSTEM.seedN, or SYSTEM.foldN, of ``benchmarks/results/NAME.jsonl`` in the order of their numbers."""
    return [run for run in runs(name).values() if re.fullmatch(rf"{re.escape(system)}\.(seed|fold)\d+", run["run"])]


def environment(**variables: str) -> Dict[str, str]:
    """For a process that has this checkout, one thread, and no home folder."""
    return {name: value for name, value in {**usual_environment(), **variables}.items() if name != "HOME"}


class Command(NamedTuple):
    """A command of a fenced block, without its pipes and comments."""

    page: str
    environment: Dict[str, str]  # assignments in front of it
    words: List[str]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def fenced(page: Path, language: str) -> Iterator[str]:
    """The fenced blocks of a language."""
    for block in re.finditer(r"^```(\w+)\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S):
        if block.group(1) == language:
            yield block.group(2)


def commands(page: Path) -> Iterator[Command]:
    """All simple commands of the page's bash blocks."""
    for block in fenced(page, "bash"):
        for line in block.replace("\\\n", " ").splitlines():
            lexer = shlex.shlex(line, posix=True, punctuation_chars="|;&<>()")
            lexer.whitespace_split = True
            words: List[str] = []
            operator = ";"
            for word in [*lexer, ";"]:
                if set(word) <= set("|;&<>()"):
                    operator = word
                    if words and operator not in ("<", ">"):
                        yield command(page, words)
                        words = []
                elif operator not in ("<", ">"):
                    words.append(word)


def command(page: Path, words: List[str]) -> Command:
    environment = {}
    while words and re.match(r"[A-Z_]+=", words[0]):
        name, value = words[0].split("=", 1)
        environment[name] = value
        words = words[1:]
    return Command(page.relative_to(REPO).as_posix(), environment, words)


def run_script(script: str, folder: Path, path: str) -> str:
    """Runs shell commands in a folder, with a PATH of warm commands; returns what they print."""
    done = run_bash("-euo", "pipefail", "-c", script, path=path, cwd=folder, WANDB_SILENT="true")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout
