"""``{command-help}``: a section with the ``--help`` of each subcommand of fairseq-attn, or of those it names."""

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

__all__ = ["help_of", "setup"]


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
        result: List[nodes.Node] = []
        for name in self.arguments or cli.COMMANDS:
            section = nodes.section(ids=["fairseq-attn-" + nodes.make_id(name)], names=["fairseq-attn " + name])
            section += nodes.title("", "", nodes.literal(name, name))
            text = help_of(name)
            section += nodes.literal_block(text, text, language="text")
            result.append(section)
        return result


def setup(app: Sphinx) -> Dict[str, Any]:
    app.add_directive("command-help", CommandHelpDirective)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
