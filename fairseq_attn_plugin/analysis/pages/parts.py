"""Parts that several pages share: tables and embedded pictures."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, Iterable, Optional, Sequence, Tuple, Union

from markupsafe import Markup

from fairseq_attn_plugin.analysis.pages.frame import templates
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike


def cell(value: object) -> str:
    """The text of a table's cell: a float with two digits after the point, a dash for None."""
    if value is None:
        return "\u2013"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def html_table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    caption: str = "",
    align: Optional[str] = None,
) -> Markup:
    """A table that scrolls on its own if the window is narrower. All values are escaped.

    Args:
        headers: of the columns
        rows: their values, which :func:`cell` formats
        caption: above the table
        align: a letter for each column, ``l`` or ``r``; by default columns that contain only numbers are right-aligned

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
    return _part("table", headers, [[cell(value) for value in row] for row in cells], align, caption)


def figure(
    picture: Union[PathLike, bytes],
    caption: str = "",
    alt: str = "",
    link: Optional[Tuple[str, str]] = None,
) -> Markup:
    """A PNG or SVG, from a file or as bytes, embedded in the page. If it is wider than the window, it scrolls.

    Args:
        picture: of a file or as bytes
        caption: below the picture
        alt: text for screen readers (default: the caption)
        link: address and text of a link in the caption; the picture leads there too

    Raises:
        OptionError: an unreadable file
        ValueError: another kind of picture
    """
    return _part("figure", _embedded(picture), caption, alt or caption, link)


def _embedded(picture: Union[PathLike, bytes]) -> str:
    """The picture as an address."""
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
    return f"data:{kind};base64,{base64.b64encode(picture).decode()}"


def _part(name: str, *values: Any) -> Markup:
    module: Any = templates().get_template("parts.html").module
    return Markup(str(getattr(module, name)(*values)).strip())


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, (int, float)) and not isinstance(value, bool))
