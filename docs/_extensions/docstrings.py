"""Lets docstrings be plain text: formulas need no escapes, and indented blocks are shown as they are written.

Docstrings are read in a terminal first. A block that is indented after an empty line is a formula or code, and ``*``,
``|`` and a final ``_`` outside of code are characters of a formula, not markup. A reference to something that the API
pages do not list is shown as code without a link.
"""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional, Tuple

from docutils import nodes
from fairseq.dataclass import FairseqDataclass
from sphinx import addnodes
from sphinx.application import Sphinx

# what stays as it is: roles, code, which may go on in the next line, and the signs of lists
KEPT = re.compile(r"(:[a-z:]+:`[^`]*`|``.+?``|`[^`]+`|^\s*(?:\*|-|\d+\.)\s)", re.M | re.S)
BULLET = re.compile(r"\s*(\*|-|\d+\.)\s")


def indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def escape(text: str) -> str:
    """``text`` with the characters that reStructuredText would take for markup escaped, outside of code."""
    parts = KEPT.split(text)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*|`])", r"\\\1", parts[i])
        parts[i] = re.sub(r"(?<=\w)_(?!\w)", r"\\_", parts[i])
    return "".join(parts)


def as_rst(lines: List[str]) -> List[str]:
    """A docstring's lines as reStructuredText; tables of ``===`` stay as they are."""
    result: List[str] = []
    prose: List[str] = []  # lines of a paragraph that are still to be escaped
    literal: Optional[int] = None  # indent of the paragraph above a block that is shown as it is written
    table = False

    def end_paragraph() -> None:
        result.extend(escape("\n".join(prose)).split("\n") if prose else [])
        prose.clear()

    for i, line in enumerate(lines):
        if literal is not None and line.strip() and indent(line) <= literal:
            literal = None
        border = re.match(r"\s*=+(\s+=+)+\s*$", line) is not None
        if border:
            table = not (table and (i + 1 == len(lines) or not lines[i + 1].strip()))
        if not line.strip() or literal is not None or table or border:
            end_paragraph()
            result.append(line)
            continue
        above = next((previous for previous in reversed(lines[:i]) if previous.strip()), None)
        begins = i > 0 and not lines[i - 1].strip() and above is not None and indent(line) > indent(above)
        if begins and above is not None and not BULLET.match(above) and not BULLET.match(line):
            end_paragraph()
            literal = indent(above)
            if not above.rstrip().endswith("::"):
                result += [" " * literal + "::", ""]
            result.append(line)
        else:
            prose.append(line)
    end_paragraph()
    return result


def process(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: List[str]) -> None:
    lines[:] = as_rst(lines)
    if what in ("attribute", "data", "property"):
        lines.insert(0, "")  # napoleon takes what stands before a colon of the first line for a type


def skip_member(app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: Any) -> Optional[bool]:
    """True for what a module only passes on, which is documented where it is defined, and for fields without a text."""
    if str(getattr(obj, "__doc__", "")).startswith("Alias for field number"):
        return True
    here = app.env.current_document.autodoc_module
    home = getattr(obj, "__module__", here)
    return True if what == "module" and here and home != here else None


def short_signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, signature: Optional[str], result: Optional[str]
) -> Optional[Tuple[str, Optional[str]]]:
    """A model's configuration has a hundred fields; the option tables show them."""
    return ("", None) if what == "class" and issubclass(obj, FairseqDataclass) else None


def without_link(app: Sphinx, env: Any, node: addnodes.pending_xref, content: nodes.Node) -> Optional[nodes.Node]:
    """The text of a reference in an API page whose target is documented nowhere; other pages stay strict."""
    if node.get("refdomain") == "py" and str(node.get("refdoc", "")).startswith("api/"):
        return content
    return None


def setup(app: Sphinx) -> Dict[str, Any]:
    app.connect("autodoc-process-docstring", process, priority=100)  # before napoleon
    app.connect("autodoc-skip-member", skip_member)
    app.connect("autodoc-process-signature", short_signature)
    app.connect("missing-reference", without_link)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
