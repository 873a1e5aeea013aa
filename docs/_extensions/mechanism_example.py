"""``{mechanism-example}``: the file of docs/examples/distance_attention, which a test trains."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

__all__ = ["setup"]

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "distance_attention" / "__init__.py"


class MechanismExampleDirective(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        self.env.note_dependency(str(EXAMPLE))
        text = EXAMPLE.read_text(encoding="utf-8")
        return [nodes.literal_block(text, text, language="python")]


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("mechanism-example", MechanismExampleDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
