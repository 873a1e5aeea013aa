"""Lets docstrings be plain text: formulas need no escapes, and indented blocks are shown as they are written.

Docstrings are read in a terminal first. A block that is indented after an empty line is a formula or code, and ``*``,
``|`` and a final ``_`` outside of code are characters of a formula, not markup. A reference to something that the API
pages do not list is shown as code without a link.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

__all__ = ["as_rst", "setup"]

CODE = re.compile(r"(:[a-z:]+:`[^`]*`|``.+?``|`[^`\n]+`)")
BULLET = re.compile(r"\s*(\*|-|\d+\.)\s")


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def escape(line: str) -> str:
    """``line`` with the characters that reStructuredText would take for markup escaped, outside of code."""
    bullet = BULLET.match(line)
    start = bullet.end() if bullet else 0
    parts = CODE.split(line[start:])
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*|`])", r"\\\1", parts[i])
        parts[i] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[i])
    return line[:start] + "".join(parts)


def as_rst(lines: List[str]) -> List[str]:
    """A docstring's lines as reStructuredText; tables of ``===`` stay as they are."""
    result: List[str] = []
    literal: Optional[int] = None  # indent of the paragraph above a block that is shown as it is written
    table = False
    for i, line in enumerate(lines):
        if not line.strip():
            result.append(line)
            continue
        if literal is not None:
            if indent(line) > literal:
                result.append(line)
                continue
            literal = None
        if re.match(r"\s*=+(\s+=+)+\s*$", line):
            table = not (table and (i + 1 == len(lines) or not lines[i + 1].strip()))
            result.append(line)
            continue
        above = next((previous for previous in reversed(lines[:i]) if previous.strip()), None)
        if i and not lines[i - 1].strip() and above is not None and indent(line) > indent(above) and not table:
            if BULLET.match(above) or BULLET.match(line):
                result.append(escape(line))
                continue
            literal = indent(above)
            if not above.rstrip().endswith("::"):
                result += [" " * literal + "::", ""]
            result.append(line)
            continue
        result.append(line if table else escape(line))
    return result


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: List[str]) -> None:
    lines[:] = as_rst(lines)


def skip_imported(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> Optional[bool]:
    """True for what a module only passes on: it is documented where it is defined."""
    here = app.env.current_document.autodoc_module
    home = getattr(obj, "__module__", here)
    return True if what == "module" and here and home != here else None


def without_link(app: Sphinx, env: Any, node: addnodes.pending_xref, content: nodes.Node) -> Optional[nodes.Node]:
    """The text of a reference in an API page whose target is documented nowhere; other pages stay strict."""
    if node.get("refdomain") == "py" and str(node.get("refdoc", "")).startswith("api/"):
        return content
    return None


def setup(app: Sphinx) -> Dict[str, Any]:
    app.connect("autodoc-process-docstring", process, priority=100)  # before napoleon
    app.connect("autodoc-skip-member", skip_imported)
    app.connect("missing-reference", without_link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
