"""Help texts are for terminals: no marks of reStructuredText, in any parser and in any option."""

import ast
import re
from dataclasses import fields
from pathlib import Path
from typing import Iterator

import fairseq  # noqa: F401
import pytest
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.models import MODEL_DATACLASS_REGISTRY
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY
from fairseq.optim.lr_scheduler import LR_SCHEDULER_DATACLASS_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY

import fairseq_attn_plugin  # noqa: F401

from cli import REPO

MARK = re.compile(r"``|:[a-z]+:`")
FILES = [path for part in ("fairseq_attn_plugin", "scripts", "benchmarks") for path in (REPO / part).rglob("*.py")]
REGISTRIES = {
    "model": MODEL_DATACLASS_REGISTRY,
    "criterion": CRITERION_DATACLASS_REGISTRY,
    "task": TASK_DATACLASS_REGISTRY,
    "optimizer": OPTIMIZER_DATACLASS_REGISTRY,
    "lr_scheduler": LR_SCHEDULER_DATACLASS_REGISTRY,
}


def texts(path: Path) -> Iterator[str]:
    """What a file gives to a parser as help, description or epilog; the docstring where it gives that."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("help", "description", "epilog"):
            for part in ast.walk(node.value):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value
                elif isinstance(part, ast.Name) and part.id == "__doc__":
                    text = ast.get_docstring(tree) or ""
                    yield text.split("\n")[0] if "split(" in ast.unparse(node.value) else text


def test_texts_are_found() -> None:
    found = {path.relative_to(REPO).as_posix(): list(texts(path)) for path in FILES}
    assert sum(map(len, found.values())) > 200
    assert found["scripts/gradient_variance.py"] and found["fairseq_attn_plugin/commands/classify.py"]


def test_parsers() -> None:
    assert [(path, text) for path in FILES for text in texts(path) if MARK.search(text)] == []


@pytest.mark.parametrize("kind", REGISTRIES)
def test_options_of_fairseq(kind: str) -> None:
    own = {name: cls for name, cls in REGISTRIES[kind].items() if cls.__module__.split(".")[0] == "fairseq_attn_plugin"}
    assert own or kind == "task"
    helps = {f"{name} {item.name}": str(item.metadata.get("help")) for name, cls in own.items() for item in fields(cls)}
    assert [name for name, text in helps.items() if MARK.search(text)] == []
