"""``{patch-list}``: what the package changes in stock fairseq, from ``fairseq_attn_plugin.patches.PATCHES``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Dict, List

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

__all__ = ["setup"]


def in_words(value: Any) -> str:
    return value if isinstance(value, str) else ", ".join(str(item) for item in value)


class PatchListDirective(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        if find_spec("fairseq_attn_plugin.patches") is None:
            return []
        patches = import_module("fairseq_attn_plugin.patches").PATCHES
        result = nodes.definition_list()
        for patch in patches:
            definition = nodes.definition("", nodes.paragraph("", patch.reason))
            definition += nodes.paragraph("", f"Checked with {in_words(patch.versions)}. Changes: ")
            for target in [patch.targets] if isinstance(patch.targets, str) else patch.targets:
                definition[-1] += [nodes.literal(str(target), str(target)), nodes.Text(" ")]
            term = nodes.term("", "", nodes.literal(patch.name, patch.name))
            result += nodes.definition_list_item("", term, definition)
        return [result]


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("patch-list", PatchListDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
