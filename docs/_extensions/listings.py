"""Lists that are made from the code.

``{command-help}``: a section with the ``--help`` of each subcommand of fairseq-attn, or of those it names.
``{recipe-manuals}``: the comment at the beginning of every recipe.
``{patch-list}``: what the package changes in stock fairseq, from ``fairseq_attn_plugin.patches.PATCHES``.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any, Dict, List
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from fairseq_attn_plugin import cli
from fairseq_attn_plugin.commands.recipe import header, names
from fairseq_attn_plugin.commands.where import RECIPES
from fairseq_attn_plugin.patches import PATCHES
from fairseq_attn_plugin.patches.wrapping import CHECKED


def text_section(kind: str, name: str, text: str) -> nodes.section:
    """A section whose title is a name, with a text as it is."""
    section = nodes.section(ids=[f"{kind.replace(' ', '-')}-{nodes.make_id(name)}"], names=[f"{kind} {name}"])
    section += nodes.title("", "", nodes.literal(name, name))
    section += nodes.literal_block(text, text, language="text")
    return section


def help_of(command: str) -> str:
    """What ``fairseq-attn COMMAND --help`` prints in a terminal of 100 columns."""
    text = io.StringIO()
    # argparse colours its output in a terminal, and takes the width from COLUMNS
    terminal = mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"})
    with terminal, contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        cli.main([command, "--help"])
    return text.getvalue()


class CommandHelpDirective(SphinxDirective):
    optional_arguments = 30

    def run(self) -> List[nodes.Node]:
        return [text_section("fairseq-attn", name, help_of(name)) for name in self.arguments or cli.COMMANDS]


class RecipeManualsDirective(SphinxDirective):
    def run(self) -> List[nodes.Node]:
        for name in names():
            self.env.note_dependency(str(RECIPES / f"{name}.sh"))
        return [text_section("recipe", name, header(name).rstrip("\n")) for name in names()]


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
    app.add_directive("command-help", CommandHelpDirective)
    app.add_directive("recipe-manuals", RecipeManualsDirective)
    app.add_directive("patch-list", PatchListDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
