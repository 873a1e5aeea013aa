"""``{api} GROUP``: a section for each module of a group, made from its docstrings. The groups are listed here only."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any, Dict, List

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

PACKAGE = "fairseq_attn_plugin"
# a package stands for itself and its public modules
GROUPS: Dict[str, List[str]] = {
    "attention": ["attention"],
    "ops": ["ops"],
    "models": ["models", "modules", "tasks", "decoding"],
    "criterions": ["criterions", "optimizers"],
    "analysis": ["analysis.records", "analysis.inference.translator"],
    "other": ["errors", "options", "export", "testing", "toy_corpus", "text"],
}


def modules_of(group: str) -> List[str]:
    """The full names of the modules of a group, in alphabetical order below each package."""
    result: List[str] = []
    for name in (f"{PACKAGE}.{item}" for item in GROUPS[group]):
        module = importlib.import_module(name)
        result.append(name)
        for below in pkgutil.walk_packages(getattr(module, "__path__", []), f"{name}."):
            if not below.name.rpartition(".")[2].startswith("_"):
                result.append(below.name)
    return result


class ApiDirective(SphinxDirective):
    required_arguments = 1

    def run(self) -> List[nodes.Node]:
        group = self.arguments[0]
        if group not in GROUPS:
            raise self.error(f"unknown group {group}; choose from {', '.join(GROUPS)}")
        return [self.module(name) for name in modules_of(group)]

    def module(self, name: str) -> nodes.section:
        section = nodes.section(ids=[nodes.make_id(name)], names=[name])
        section += nodes.title("", "", nodes.literal("", name.split(".", 1)[1]))
        text = ["```{eval-rst}", f".. automodule:: {name}", "   :members:", "   :show-inheritance:", "```"]
        source = importlib.import_module(name).__file__ or name
        self.env.note_dependency(source)
        self.state.nested_parse(StringList(text, source), self.content_offset, section)
        return section


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("api", ApiDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
