"""A document of headings, paragraphs, tables, pictures and links, rendered as Markdown or as a page."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from fairseq_attn_plugin.analysis.outputs.tables import markdown_table
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.pages.parts import cell, figure, html_table

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


class Link(NamedTuple):
    """A link to a file, or with ``fragment`` to a place in a page."""

    path: Path
    text: str
    fragment: str = ""


class _Picture(NamedTuple):
    path: Path
    caption: str
    link: Optional[Link]


_Block = Union[_Text, _Table, _Picture, Link]


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

    def picture(self, path: Path, caption: str, draw: Callable[[Path], Any], link: Optional[Link] = None) -> None:
        """A picture that ``draw`` draws to ``path``; it leads to ``link``."""
        draw(path)
        self._blocks.append(_Picture(path, caption, link))

    def link(self, path: Union[str, Path], text: str, fragment: str = "") -> None:
        self._blocks.append(Link(Path(path), text, fragment))

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
        blocks = [_for_page(block, folder) for block in self._blocks]
        return frame.page("report.html", self.title, script=frame.read_asset("scroll.js"), blocks=blocks)


def _markdown(block: _Block, folder: Union[str, Path]) -> str:
    if isinstance(block, _Text):
        return _MARKDOWN[block.kind](block.text)
    if isinstance(block, _Table):
        rows = [[_plain(cell(value)) for value in row] for row in block.rows]
        return markdown_table([_plain(header) for header in block.headers], rows, _alignment(block))
    if isinstance(block, _Picture):
        picture = f"![{_plain(block.caption)}]({_relative(block.path, folder)})"
        return picture if block.link is None else f"{picture}\n\n{_markdown(block.link, folder)}"
    return f"[{_plain(block.text)}]({_target(block, folder)})"


def _for_page(block: _Block, folder: Union[str, Path]) -> Dict[str, Any]:
    """The values that the template ``report.html`` shows."""
    if isinstance(block, _Text):
        return block._asdict()
    if isinstance(block, _Table):
        return {"kind": "table", "markup": html_table(block.headers, block.rows, block.caption, _alignment(block))}
    if isinstance(block, _Picture):
        link = None if block.link is None else (_target(block.link, folder), block.link.text)
        return {"kind": "picture", "markup": figure(block.path, block.caption, link=link)}
    return {"kind": "link", "target": _target(block, folder), "text": block.text}


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


def _target(link: Link, folder: Union[str, Path]) -> str:
    return _relative(link.path, folder) + (f"#{link.fragment}" if link.fragment else "")


def _relative(path: Path, folder: Union[str, Path]) -> str:
    return Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20")


def _alignment(block: _Table) -> str:
    """A letter for each column: ``r`` if all its cells that are not empty are numbers, else ``l``."""
    sides = []
    for column in zip(*block.rows) if block.rows else [()] * len(block.headers):
        shown = [cell(value) for value in column if value not in (None, "", "-")]
        sides.append("r" if shown and all(map(_NUMBER.fullmatch, shown)) else "l")
    return "".join(sides)
