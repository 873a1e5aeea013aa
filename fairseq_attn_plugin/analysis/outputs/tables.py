"""Tables by tabulate, in Markdown or for a terminal. The cells are already formatted and escaped."""

from __future__ import annotations

from typing import Sequence

from tabulate import tabulate

_SIDES = {"l": "left", "r": "right"}


def markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """A Markdown table whose columns also line up in a terminal; ``align`` has ``l`` or ``r`` for each column."""
    sides = [_SIDES[side] for side in align]
    return tabulate(rows, headers, tablefmt="pipe", colalign=sides if rows else None, disable_numparse=True)


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[str]], align: str) -> str:
    """Columns separated by two spaces; ``align`` has ``l`` or ``r`` for each column."""
    # tabulate adds space around headers, but not around a first row
    return tabulate(
        [headers, *rows], tablefmt="plain", colalign=[_SIDES[side] for side in align], disable_numparse=True
    )
