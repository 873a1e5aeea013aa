"""A document of headings, paragraphs, tables, pictures and links, rendered as Markdown or as a page."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Union

from fairseq_attn_plugin.analysis.outputs.tables import markdown_table
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.pages.parts import cell, figure, html_table

__all__ = ["Document"]


# a number, with a sign, thousands or a remark in brackets
_NUMBER = re.compile(r"[-+\u2212]?\d[\d,.]*( %)?( \(.*\))?")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#$~])")


class _Text(NamedTuple):
    kind: str  # "heading", "subheading", "paragraph", "code"
    text: str


class _Table(NamedTuple):
    headers: Sequence[str]
    rows: Sequence[Sequence[object]]
    caption: str


class _Picture(NamedTuple):
    path: Path
    caption: str


class _Link(NamedTuple):
    path: Path
    text: str


_Block = Union[_Text, _Table, _Picture, _Link]


class Document:
    """A sequence of blocks. All text is plain; each output format escapes it."""

    def __init__(self, title: str):
        self.title = title
        self._blocks: List[_Block] = []

    def heading(self, text: str) -> None:
        self._blocks.append(_Text("heading", text))

    def subheading(self, text: str) -> None:
        self._blocks.append(_Text("subheading", text))

    def paragraph(self, text: str) -> None:
        self._blocks.append(_Text("paragraph", text))

    def code(self, text: str) -> None:
        self._blocks.append(_Text("code", text))

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> None:
        """A float is shown with two digits, None as a dash. Columns of numbers are right-aligned."""
        self._blocks.append(_Table(headers, rows, caption))

    def picture(self, path: Union[str, Path], caption: str) -> None:
        self._blocks.append(_Picture(Path(path), caption))

    def link(self, path: Union[str, Path], text: str) -> None:
        self._blocks.append(_Link(Path(path), text))

    def markdown(self, folder: Union[str, Path]) -> str:
        """Markdown for a file in ``folder``: paths of pictures and links are relative to it."""
        parts = [f"# {_plain(self.title)}"]
        for block in self._blocks:
            if isinstance(block, _Table) and block.caption:
                parts.append(_plain(block.caption))
            parts.append(_markdown(block, folder))
        return "\n\n".join(parts) + "\n"

    def html(self, folder: Union[str, Path]) -> str:
        """One page that contains the pictures; links are relative to ``folder``."""
        return frame.page("report.html", self.title, blocks=[_for_page(block, folder) for block in self._blocks])


def _markdown(block: _Block, folder: Union[str, Path]) -> str:
    if isinstance(block, _Text):
        return _MARKDOWN[block.kind](block.text)
    if isinstance(block, _Table):
        rows = [[_plain(cell(value)) for value in row] for row in block.rows]
        return markdown_table([_plain(header) for header in block.headers], rows, _alignment(block))
    where = _relative(block.path, folder)
    if isinstance(block, _Picture):
        return f"![{_plain(block.caption)}]({where})"
    return f"[{_plain(block.text)}]({where})"


def _for_page(block: _Block, folder: Union[str, Path]) -> Dict[str, Any]:
    """The values that the template ``report.html`` shows."""
    if isinstance(block, _Text):
        return block._asdict()
    if isinstance(block, _Table):
        return {"kind": "table", "markup": html_table(block.headers, block.rows, block.caption, _alignment(block))}
    if isinstance(block, _Picture):
        return {"kind": "picture", "markup": figure(block.path, block.caption)}
    return {"kind": "link", "target": _relative(block.path, folder), "text": block.text}


def _plain(text: object) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _fence(text: str) -> str:
    """A fence that is longer than any run of backticks in the text."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


_MARKDOWN: Dict[str, Callable[[str], str]] = {
    "heading": lambda text: f"## {_plain(text)}",
    "subheading": lambda text: f"### {_plain(text)}",
    "paragraph": _plain,
    "code": lambda text: "{0}\n{1}\n{0}".format(_fence(text), text),
}


def _relative(path: Path, folder: Union[str, Path]) -> str:
    return Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20")


def _alignment(block: _Table) -> str:
    """A letter for each column: ``r`` if all its cells that are not empty are numbers, else ``l``."""
    sides = []
    for column in zip(*block.rows) if block.rows else [()] * len(block.headers):
        shown = [cell(value) for value in column if value not in (None, "", "-")]
        sides.append("r" if shown and all(map(_NUMBER.fullmatch, shown)) else "l")
    return "".join(sides)
