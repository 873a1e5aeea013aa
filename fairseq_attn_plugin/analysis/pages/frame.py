"""What all pages of ``attn-analysis`` share: a frame without any request to a network, tables, pictures, escaping.

A page is one file. Its Content-Security-Policy lets nothing in from outside and runs no script but those that
:func:`page` put there, so that a sentence with markup in it stays a sentence even if something forgot to escape it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from html import escape as _escape
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence, Union

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["cell", "embedded_json", "escape", "figure", "page", "read_asset", "table"]


ASSETS = Path(__file__).with_name("assets")
# what would end a script element, begin a comment in it, or be a line break to older engines
_IN_SCRIPT = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def escape(text: object) -> str:
    """``text`` for an element or a quoted attribute; what UTF-8 cannot have (of a file's name) becomes ``?``."""
    return _escape(str(text).encode("utf-8", "replace").decode("utf-8"), quote=True)


def embedded_json(value: Any) -> str:
    """JSON that may stand in a script element: no ``</script>``, ``<!--`` or U+2028 in a string can end it.

    Raises ``ValueError`` for NaN and infinities, which JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(_IN_SCRIPT).encode("utf-8", "backslashreplace").decode("utf-8")  # lone surrogates


def read_asset(name: str) -> str:
    """A style sheet or script of this package."""
    return (ASSETS / name).read_text(encoding="utf-8")


def page(
    title: str,
    body: str,
    style: str = "",
    script: str = "",
    data: Any = None,
    connect: bool = False,
) -> str:
    """A whole page, light or dark as the reader's system is.

    Args:
        title: plain text
        body: HTML
        style: CSS after that of all pages
        script: JavaScript, run when the body is there
        data: what the script finds as JSON in the element with id ``data``
        connect: the script may ask the server that the page came from
    """
    hashed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            "style-src 'unsafe-inline'",
            f"script-src 'sha256-{hashed}'" if script else "script-src 'none'",
            "connect-src 'self'" if connect else "connect-src 'none'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(title)}</title>",
        '<link rel="icon" href="data:,">',
        f"<style>\n{read_asset('base.css')}{style}</style>",
        "</head>",
        "<body>",
        body,
    ]
    if data is not None:
        parts.append(f'<script type="application/json" id="data">{embedded_json(data)}</script>')
    if script:
        parts.append(f"<script>{script}</script>")
    return "\n".join([*parts, "</body>", "</html>", ""])


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    caption: str = "",
    align: Optional[str] = None,
) -> str:
    """A table that scrolls by itself where the window is narrower; everything in it is escaped.

    Args:
        headers: of the columns
        rows: their cells; a float is shown with two digits after the point, None as a dash
        caption: above it
        align: a letter for each column, ``l`` or ``r``; else columns that hold nothing but numbers are on the right

    Raises:
        ValueError: a row, or ``align``, has another number of columns than ``headers``
    """
    cells = [list(row) for row in rows]
    for row in cells:
        if len(row) != len(headers):
            raise ValueError(f"a row of {len(row)} cells in a table of {len(headers)} columns")
    if align is None:
        columns = list(zip(*cells)) if cells else [()] * len(headers)
        align = "".join("r" if column and all(map(_is_number, column)) else "l" for column in columns)
    if len(align) != len(headers) or set(align) - set("lr"):
        raise ValueError(f"alignment {align!r} of a table of {len(headers)} columns")

    def line(kind: str, values: Iterable[object]) -> str:
        scope = ' scope="col"' if kind == "th" else ""
        number = {"l": "", "r": ' class="number"'}
        pairs = zip(values, align or "")
        inner = "".join(f"<{kind}{scope}{number[side]}>{escape(cell(value))}</{kind}>" for value, side in pairs)
        return f"<tr>{inner}</tr>"

    return "\n".join(
        [
            '<div class="table"><table>',
            *([f"<caption>{escape(caption)}</caption>"] if caption else []),
            f"<thead>{line('th', headers)}</thead>",
            "<tbody>",
            *(line("td", row) for row in cells),
            "</tbody>",
            "</table></div>",
        ]
    )


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))


def cell(value: object) -> str:
    """What stands in a table: a float with two digits after the point, a dash for None."""
    if value is None:
        return "\u2013"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def figure(picture: Union[PathLike, bytes], caption: str = "", alt: str = "") -> str:
    """A PNG or SVG, from a file or as bytes, inside the page itself.

    ``alt`` is what is read out in its place (default: the caption). Raises ``OptionError`` for a file that cannot be
    read, ``ValueError`` for another kind of picture.
    """
    where = "the picture"
    if not isinstance(picture, bytes):
        where = str(picture)
        try:
            picture = Path(picture).read_bytes()
        except OSError as error:
            raise OptionError(f"{where}: cannot be read: {error.strerror or error}") from None
    if picture.startswith(b"\x89PNG\r\n\x1a\n"):
        kind = "image/png"
    elif b"<svg" in picture[:2000]:
        kind = "image/svg+xml"
    else:
        raise ValueError(f"{where}: is neither PNG nor SVG")
    source = f"data:{kind};base64,{base64.b64encode(picture).decode()}"
    words = f"<figcaption>{escape(caption)}</figcaption>" if caption else ""
    return f'<figure><img src="{source}" alt="{escape(alt or caption)}">{words}</figure>'
