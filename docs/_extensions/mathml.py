"""Renders formulas as MathML, which browsers show without a script and without a network."""

from __future__ import annotations

from typing import Any, Dict

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.errors import SphinxError


def mathml(latex: str, display: str) -> str:
    """The ``<math>`` element of a formula.

    Raises:
        SphinxError: the formula is not valid LaTeX
    """
    try:
        made = convert(latex.strip(), display=display)
    except Exception as error:  # latex2mathml raises a different exception for each kind of mistake
        raise SphinxError(f"the formula {latex.strip()!r} cannot be converted: {error!r}") from error
    # what it does not know it copies
    if "\\" in made or "<mi>&</mi>" in made:
        raise SphinxError(f"the formula {latex.strip()!r} has a command that latex2mathml does not know")
    return made


def visit_inline(self: Any, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def visit_block(self: Any, node: nodes.math_block) -> None:
    self.body.append(mathml(node.astext(), "block"))
    raise nodes.SkipNode


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    app.config["html_math_renderer"] = "mathml"
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
