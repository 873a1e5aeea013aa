"""``{api} GROUP``: a section for each module of a group, made from its docstrings. The groups are listed here only."""

from __future__ import annotations

import importlib
from typing import Any, Dict, List

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

__all__ = ["GROUPS", "setup"]

PACKAGE = "fairseq_attn_plugin"
GROUPS: Dict[str, List[str]] = {
    "attention": [
        "attention",
        "attention.base",
        "attention.scored",
        "attention.scores",
        "attention.normalizers",
        "attention.biases",
        "attention.soft",
        "attention.density_matrix",
        "attention.structured",
        "attention.local",
        "attention.gaussian",
        "attention.election",
    ],
    "ops": ["ops.pair_pooling", "ops.chain_crf", "ops.mixture_nll", "ops.deferred", "ops.lstm_cell", "ops.tanh"],
    "models": [
        "models.attn_lstm",
        "models.latent_lstm",
        "models.agreement_lstm",
        "models.han",
        "tasks.document_classification",
    ],
    "criterions": [
        "criterions.latent_alignment",
        "criterions.guided_alignment",
        "criterions.agreement",
        "criterions.document_classification",
    ],
    "analysis": ["analysis.records", "analysis.translator"],
    "other": ["errors", "export"],
}


class ApiDirective(SphinxDirective):
    required_arguments = 1

    def run(self) -> List[nodes.Node]:
        group = self.arguments[0]
        if group not in GROUPS:
            raise self.error(f"unknown group {group}; choose from {', '.join(GROUPS)}")
        return [self.module(f"{PACKAGE}.{name}") for name in GROUPS[group]]

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
