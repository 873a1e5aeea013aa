"""``{recipe-manuals}``: the comment at the head of every recipe, which is its manual."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fairseq_attn_plugin.recipes.cli import manual

__all__ = ["setup"]

RECIPES = Path(__file__).resolve().parent.parent.parent / "scripts" / "recipes"


class RecipeManualsDirective(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        result: List[nodes.Node] = []
        for script in sorted(RECIPES.glob("[!_]*.sh")):
            self.env.note_dependency(str(script))
            section = nodes.section(ids=["recipe-" + nodes.make_id(script.stem)], names=["recipe " + script.stem])
            section += nodes.title("", "", nodes.literal(script.name, script.name))
            text = manual(script.stem).rstrip("\n")
            section += nodes.literal_block(text, text, language="text")
            result.append(section)
        return result


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("recipe-manuals", RecipeManualsDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
