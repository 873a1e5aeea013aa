"""What pages, Markdown and the terminal share: a document, which is rendered as Markdown or as a page, and tables.

The cells of :func:`markdown_table` are already formatted and escaped, by :func:`plain`.
"""

import base64
import os
import re
from functools import partialmethod
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from tabulate import tabulate

from fairseq_attn_plugin.analysis.pages import frame

# a number, with a sign, thousands or a remark in brackets
_NUMBER = re.compile(r"[-+\u2212]?\d[\d,.]*( %)?( \(.*\))?")
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f]")
_SIDES = {"l": "left", "r": "right"}
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|#$~]|&(?=[#\w]))")


class Link(NamedTuple):
    """A link to a file, or with ``fragment`` to a place in a page."""

    path: Path
    text: str
    fragment: str = ""


class Document:
    """A sequence of blocks. All text is plain; each output format escapes it."""

    def __init__(self, title: str):
        self.title = title
        self._blocks: List[Dict[str, Any]] = []

    def _add(self, kind: str, text: str) -> None:
        self._blocks.append({"kind": kind, "text": text})

    heading = partialmethod(_add, "heading")
    subheading = partialmethod(_add, "subheading")
    paragraph = partialmethod(_add, "paragraph")
    code = partialmethod(_add, "code")

    def table(self, headers: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A float is shown with two digits, None as a dash. Columns of numbers are right-aligned."""
        shown = [[_cell(value) for value in row] for row in rows]
        columns = zip(*shown) if shown else [()] * len(headers)
        sides = "".join("r" if _is_numeric(column) else "l" for column in columns)
        self._blocks.append({"kind": "table", "headers": list(headers), "rows": shown, "sides": sides})

    def picture(self, path: Path, caption: str, draw: Callable[[Path], Any], link: Optional[Link] = None) -> None:
        """A PNG that ``draw`` draws to ``path``; it leads to ``link``."""
        draw(path)
        self._blocks.append({"kind": "picture", "path": path, "text": caption, "link": link})

    def link(self, path: Union[str, Path], text: str, fragment: str = "") -> None:
        self._blocks.append({"kind": "link", "link": Link(Path(path), text, fragment)})

    def markdown(self, folder: Union[str, Path]) -> str:
        """Markdown for a file in ``folder``: paths of pictures and links are relative to it."""
        parts = [f"# {plain(self.title)}"]
        for block in self._blocks:
            kind, text, link = block["kind"], block.get("text", ""), block.get("link")
            if kind == "table":
                rows = [[plain(value) for value in row] for row in [block["headers"], *block["rows"]]]
                parts.append(markdown_table(rows[0], rows[1:], block["sides"]))
            elif kind == "code":
                # longer than any run of backticks in the text
                fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
                parts.append(f"{fence}\n{text}\n{fence}")
            elif kind == "picture":
                parts.append(f"![{plain(text)}]({_target(Link(block['path'], text), folder)})")
            elif text:
                parts.append({"heading": "## ", "subheading": "### "}.get(kind, "") + plain(text))
            if link is not None:
                parts.append(f"[{plain(link.text)}]({_target(link, folder)})")
        return "\n\n".join(parts) + "\n"

    def html(self, folder: Union[str, Path]) -> str:
        """One page that contains the pictures; links are relative to ``folder``."""
        return frame.page(
            "report.html",
            self.title,
            script=frame.read_asset("scroll.js"),
            blocks=self._blocks,
            target=lambda link: _target(link, folder),
            embedded=lambda path: f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}",
        )


def _cell(value: object) -> str:
    """The text of a table's cell: a float with two digits after the point, a dash for None."""
    if value is None:
        return "\u2013"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def _is_numeric(column: Sequence[str]) -> bool:
    """Whether all cells that are not empty are numbers."""
    shown = [cell for cell in column if cell not in ("\u2013", "", "-")]
    return bool(shown) and all(map(_NUMBER.fullmatch, shown))


def printable(text: object) -> str:
    """Text in one line; control characters in a file must not control a terminal."""
    return " ".join(_CONTROLS.sub("\ufffd", str(text)).split())


def plain(text: object) -> str:
    """Text in one line that Markdown shows as it is."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _target(link: Link, folder: Union[str, Path]) -> str:
    path = Path(os.path.relpath(link.path, folder or ".")).as_posix().replace(" ", "%20")
    return path + (f"#{link.fragment}" if link.fragment else "")


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A Markdown table whose columns also line up in a terminal; ``align`` has ``l`` or ``r`` for each column."""
    sides = [_SIDES[side] for side in align]
    return tabulate(rows, headers, tablefmt="pipe", colalign=sides if rows else None, disable_numparse=True)


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """Columns separated by two spaces; ``align`` has ``l`` or ``r`` for each column."""
    # tabulate adds space around headers, but not around a first row
    cells = [[printable(cell) for cell in row] for row in (headers, *rows)]
    return tabulate(cells, tablefmt="plain", colalign=[_SIDES[side] for side in align], disable_numparse=True)
