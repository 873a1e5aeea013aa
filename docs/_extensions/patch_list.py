"""``{patch-list}``: what the package changes in stock fairseq, from ``fairseq_attn_plugin.patches.PATCHES``."""

from __future__ import annotations

from typing import Any, Dict, List

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fairseq_attn_plugin.patches import PATCHES
from fairseq_attn_plugin.patches.wrapping import CHECKED

__all__ = ["setup"]


class PatchListDirective(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        result = nodes.definition_list()
        for patch in PATCHES:
            reason = nodes.paragraph("", patch.reason)
            changes = nodes.paragraph("", f"Checked with fairseq {', '.join(CHECKED)}.")
            for number, target in enumerate(patch.wraps):
                name = target.replace(":", ".")
                changes += [nodes.Text(", " if number else " Wraps "), nodes.literal(name, name)]
            term = nodes.term("", "", nodes.literal(patch.name, patch.name))
            result += nodes.definition_list_item("", term, nodes.definition("", reason, changes))
        return [result]


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("patch-list", PatchListDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
