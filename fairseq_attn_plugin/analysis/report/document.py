"""A report that is written once and shown twice, as Markdown and as a page."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, List, NamedTuple, Sequence, Union

from fairseq_attn_plugin.analysis.pages import frame as _html

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


class Document:
    """Headings, paragraphs, tables, pictures and links, one after the other. All text is plain and is escaped."""

    def __init__(self, title: str):
        self.title = title
        self._blocks: List[Any] = []

    def heading(self, text: str) -> None:
        self._blocks.append(_Text("heading", text))

    def subheading(self, text: str) -> None:
        self._blocks.append(_Text("subheading", text))

    def paragraph(self, text: str) -> None:
        self._blocks.append(_Text("paragraph", text))

    def code(self, text: str) -> None:
        self._blocks.append(_Text("code", text))

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]], caption: str = "") -> None:
        """A float is shown with two digits, None as a dash."""
        self._blocks.append(_Table(headers, rows, caption))

    def picture(self, path: Union[str, Path], caption: str) -> None:
        self._blocks.append(_Picture(Path(path), caption))

    def link(self, path: Union[str, Path], text: str) -> None:
        self._blocks.append(_Link(Path(path), text))

    def markdown(self, folder: Union[str, Path]) -> str:
        """For a file in ``folder``: pictures and links are relative to it."""
        parts = [f"# {_plain(self.title)}"]
        for block in self._blocks:
            if isinstance(block, _Text):
                parts.append(_MARKDOWN[block.kind](block.text))
            elif isinstance(block, _Table):
                parts += [_plain(block.caption)] if block.caption else []
                parts.append(_markdown_table(block))
            else:
                where = _relative(block.path, folder)
                words = block.caption if isinstance(block, _Picture) else block.text
                parts.append(f"{'!' if isinstance(block, _Picture) else ''}[{_plain(words)}]({where})")
        return "\n\n".join(parts) + "\n"

    def html(self, folder: Union[str, Path]) -> str:
        """The same as one page, in which the pictures are; links are relative to ``folder``."""
        parts = [f"<main><h1>{_html.escape(self.title)}</h1>"]
        for block in self._blocks:
            if isinstance(block, _Text):
                tag = {"heading": "h2", "subheading": "h3", "paragraph": "p", "code": "pre"}[block.kind]
                parts.append(f"<{tag}>{_html.escape(block.text)}</{tag}>")
            elif isinstance(block, _Table):
                parts.append(_html.table(block.headers, block.rows, block.caption, _alignment(block)))
            elif isinstance(block, _Picture):
                parts.append(_html.figure(block.path, block.caption))
            else:
                where = _html.escape(_relative(block.path, folder))
                parts.append(f'<p><a href="{where}">{_html.escape(block.text)}</a></p>')
        return _html.page(self.title, "\n".join([*parts, "</main>"]))


def _plain(text: object) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _fence(text: str) -> str:
    """Longer than any in the text."""
    return "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))


_MARKDOWN = {
    "heading": lambda text: f"## {_plain(text)}",
    "subheading": lambda text: f"### {_plain(text)}",
    "paragraph": _plain,
    "code": lambda text: "{0}\n{1}\n{0}".format(_fence(text), text),
}


def _relative(path: Path, folder: Union[str, Path]) -> str:
    return Path(os.path.relpath(path, folder)).as_posix().replace(" ", "%20")


def _alignment(block: _Table) -> str:
    """A letter for each column: ``r`` for one that has numbers and nothing else, but for cells without anything."""
    sides = []
    for column in zip(*block.rows) if block.rows else [()] * len(block.headers):
        shown = [_html.cell(value) for value in column if value not in (None, "", "-")]
        sides.append("r" if shown and all(map(_NUMBER.fullmatch, shown)) else "l")
    return "".join(sides)


def _markdown_table(block: _Table) -> str:
    lines = [
        [_plain(header) for header in block.headers],
        ["---:" if side == "r" else "---" for side in _alignment(block)],
        *([_plain(_html.cell(value)) for value in row] for row in block.rows),
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
