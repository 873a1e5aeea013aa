"""Every command and every import in the documentation is one that the program accepts."""

import ast
import json
import re
from importlib import import_module
from pathlib import Path
from typing import List

import pytest
from recorded_recipes import train_command

from fairseq_attn_plugin.analysis.records import open_records
from fairseq_attn_plugin.commands.recipe import header, names

from cli import run_cli
from documentation import PAGES, REPO, Command, commands, fenced

COMMANDS = [item for page in PAGES for item in commands(page)]
PARSED = ("fairseq-preprocess", "fairseq-train", "fairseq-validate", "fairseq-generate", "fairseq-interactive")
PROGRAMS = ("fairseq-attn", "attn-analysis")
SHELL = {"source", "for", "done", "do", "subword-nmt"}
EXAMPLE = "docs/examples/distance_attention"


def errors_of(items: List[Command]) -> List[str]:
    text = json.dumps([arguments(item) for item in items])
    done = run_cli(Path(__file__).with_name("parse_commands.py"), stdin=text, cwd=REPO)
    result: List[str] = json.loads(done.stdout)
    return result


def arguments(item: Command) -> List[str]:
    """The words to parse: `do` of a loop is left out, a recipe becomes the fairseq-train that it would call."""
    words = item.words[1:] if item.words[0] == "do" else item.words
    words = [EXAMPLE if word == Path(EXAMPLE).name else word for word in words]  # the reader's own copy
    if words[0] in PROGRAMS and words[1] in PARSED:
        return words[1:]
    if not is_recipe(words):
        return words
    environment = {name: value for name, value in item.environment.items() if name not in ("OUT", "DATA", "SEED")}
    return ["fairseq-train", "data", *train_command(words[2], **environment), *words[3:]]


def is_parsed(item: Command) -> bool:
    words = item.words[1:] if item.words[:1] == ["do"] else item.words
    if not words:
        return False
    if is_recipe(words):
        return any(word.startswith("-") and word != "--help" for word in words)
    if words[0] in PROGRAMS and words[1] == "fairseq-hydra-train":
        return False
    return words[0] in (*PARSED, *PROGRAMS, "python")


def is_recipe(words: List[str]) -> bool:
    return words[0] in PROGRAMS and words[1] == "recipe"


def needs_example(item: Command) -> bool:
    return bool({EXAMPLE, Path(EXAMPLE).name} & set(item.words))


def test_commands_are_accepted_and_wrong_ones_are_not() -> None:
    """Those with a mechanism from outside are the last ones: it stays imported."""
    items = sorted((item for item in COMMANDS if is_parsed(item)), key=needs_example)
    wrong = ["fairseq-train data --arch lstm_soft --no-such-option 1", "fairseq-attn plot --no-such-option 1"]
    train, plot, *errors = errors_of([*(Command("a page", {}, text.split()) for text in wrong), *items])
    assert len(items) > 60 and sum(map(needs_example, items)) >= 3
    assert [error for error in errors if error] == []
    assert "no-such-option" in train and "no-such-option" in plot


@pytest.mark.parametrize("item", [item for item in COMMANDS if item.words[:1] == ["bash"]], ids=str)
def test_scripts_exist_and_name_their_variables(item: Command) -> None:
    script = REPO / item.words[1]
    manual = "\n".join(line for line in script.read_text(encoding="utf-8").splitlines() if line.startswith("#"))
    for name in item.environment:
        assert re.search(rf"\b{name}\b", manual), f"{script.name} does not name {name}"


@pytest.mark.parametrize("item", [item for item in COMMANDS if item.words and is_recipe(item.words)], ids=str)
def test_recipes_exist_and_name_their_variables(item: Command) -> None:
    for name in item.words[2:3]:
        assert name in names()
        for variable in item.environment:
            assert re.search(rf"\b{variable}\b", header(name)), f"the header of {name} does not name {variable}"


@pytest.mark.parametrize("item", [item for item in COMMANDS if item.words[:1] == ["fairseq-hydra-train"]], ids=str)
def test_configurations_exist(item: Command) -> None:
    words = item.words
    folder = REPO / "configs"
    assert (folder / (words[words.index("--config-name") + 1] + ".yaml")).is_file()
    for word in words:
        group, _, values = word.partition("=")
        if values and (folder / group).is_dir():
            assert all((folder / group / (value + ".yaml")).is_file() for value in values.split(","))


def test_every_command_is_known() -> None:
    known = {*PARSED, *SHELL, *PROGRAMS, "fairseq-hydra-train", "python", "bash", "pip", "cat", "tail", "eflomal-align"}
    known |= {"awk", "cut", "head", "sort", "pytest"}
    assert [str(item) for item in COMMANDS if item.words and item.words[0] not in known] == []


@pytest.mark.parametrize("page", [page for page in PAGES if any(fenced(page, "python"))], ids=lambda page: page.name)
def test_imports_exist(page: Path) -> None:
    for block in fenced(page, "python"):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "fairseq_attn_plugin":
                module = import_module(node.module)
                assert all(hasattr(module, alias.name) for alias in node.names), ast.unparse(node)


def test_the_documented_program_writes_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = fenced(REPO / "docs/analysis/extract.md", "python")
    assert len(program.splitlines()) <= 15
    exec(program, {})
    (one,) = open_records("opus.jsonl")
    assert one.source_words == ["Ein", "Hund"] and one.word_attention()[0, 0] == pytest.approx(0.9)
