"""``{recipe-manuals}``: the comment at the beginning of every recipe."""

from __future__ import annotations

from typing import Any, Dict, List

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fairseq_attn_plugin.commands.recipe import header, names
from fairseq_attn_plugin.commands.where import RECIPES

__all__ = ["setup"]


class RecipeManualsDirective(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        result: List[nodes.Node] = []
        for name in names():
            self.env.note_dependency(str(RECIPES / f"{name}.sh"))
            section = nodes.section(ids=["recipe-" + nodes.make_id(name)], names=["recipe " + name])
            section += nodes.title("", "", nodes.literal(name, name))
            text = header(name).rstrip("\n")
            section += nodes.literal_block(text, text, language="text")
            result.append(section)
        return result


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("recipe-manuals", RecipeManualsDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
