"""Lays out classified documents in a picture: words in lines, and a share of the lines for each document."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from fairseq_attn_plugin.analysis.drawing.document_rows import Row, left_out_after, shaded

__all__ = [
    "KEY_LINES",
    "LEAST_LINES",
    "LEFT",
    "MOST_LINES",
    "TITLE_LINES",
    "WIDTH",
    "Layout",
    "Letters",
    "Word",
    "layouts",
]


WIDTH = 8.0  # inches
LEFT = 0.22  # inches: left edge of the words
SIZE = 10.0  # points
_SPACE = 0.1  # inches between words
MOST_LINES = 400  # of a picture: 14,100 pixels; many programs read at most 2^15
KEY_LINES = 2.6  # the key above all documents
TITLE_LINES = 2  # of a document: its title, and the space around it
LEAST_LINES = 3  # of a document's sentences: one line, and a note before and after it


class Letters:
    """Fonts, and the widths of texts in inches."""

    def __init__(self) -> None:
        from matplotlib.font_manager import FontProperties

        # the families are those of the canvas
        self.plain = FontProperties(size=SIZE)
        self.bold = FontProperties(size=SIZE, weight="bold")
        self._widths: Dict[Tuple[str, bool], float] = {}

    def width(self, text: str, bold: bool = False) -> float:
        from matplotlib.textpath import text_to_path

        if (text, bold) not in self._widths:
            # the width of the outline, which does not depend on the resolution
            prop = self.bold if bold else self.plain
            points = text_to_path.get_text_width_height_descent(text, prop, ismath=False)[0] if text else 0.0
            self._widths[text, bold] = max(points / 72, 0.05)
        return self._widths[text, bold]

    def fit(self, text: str, width: float, bold: bool = False) -> str:
        """``text``, or the longest beginning of it that fits into ``width``, with an ellipsis."""
        most = 500  # characters: more do not fit into a line
        if len(text) <= most and self.width(text, bold) <= width:
            return text
        fits, long = 0, min(len(text), most)
        while long - fits > 1:
            middle = (fits + long) // 2
            if self.width(text[:middle] + "…", bold) <= width:
                fits = middle
            else:
                long = middle
        return text[:fits] + "…"


class Word(NamedTuple):
    x: float  # inches
    text: str
    shade: float


def flow(row: Row, letters: Letters) -> List[List[Word]]:
    """The lines of a sentence."""
    lines: List[List[Word]] = [[]]
    x = LEFT
    for word, shade in zip(row.words, row.shades):
        text = letters.fit(word, WIDTH - LEFT)
        width = letters.width(text)
        if x > LEFT and x + width > WIDTH:
            x = LEFT
            lines.append([])
        lines[-1].append(Word(x, text, shade))
        x += width + _SPACE
    return lines


class Layout(NamedTuple):
    """The sentences of a document with their lines."""

    rows: List[Row]
    lines: List[List[List[Word]]]
    after: int  # number of sentences left out at the end

    @property
    def height(self) -> int:
        """In lines, including notes on left-out sentences."""
        return sum(map(len, self.lines)) + sum(row.skipped > 0 for row in self.rows) + (self.after > 0)


def _layout(document: Any, most: int, letters: Letters, room: int) -> Layout:
    """The sentences of greatest weight that fit into ``room`` lines: at least one, at most ``most`` (0: all)."""

    def of(count: int) -> Layout:
        rows = shaded(document, count)
        return Layout(rows, [flow(row, letters) for row in rows], left_out_after(document, rows))

    count = min(most or len(document.sentences), len(document.sentences))
    if count <= room:
        layout = of(count)
        if layout.height <= room or count <= 1:
            return _cut(layout, room)
    # one more sentence takes at least one line, and saves at most one
    fits, long = 1, min(count, room + 1)
    while long - fits > 1:
        middle = (fits + long) // 2
        if of(middle).height <= room:
            fits = middle
        else:
            long = middle
    return _cut(of(fits), room)


def _cut(layout: Layout, room: int) -> Layout:
    """The layout; if it consists of one sentence longer than ``room`` lines, the sentence is shortened."""
    over = layout.height - room
    if over <= 0 or len(layout.lines) != 1:
        return layout
    lines = layout.lines[0][: max(len(layout.lines[0]) - over, 1)]
    while len(lines[-1]) > 1 and lines[-1][-1].x > WIDTH - 0.3:
        lines[-1].pop()
    last = lines[-1][-1]
    lines[-1][-1] = last._replace(text=last.text.rstrip("…") + " …")
    return layout._replace(lines=[lines])


def layouts(documents: Sequence[Any], most: int, letters: Letters) -> List[Layout]:
    """The layouts of all documents. Lines that short documents do not need go to long ones."""
    left = MOST_LINES - math.ceil(KEY_LINES) - TITLE_LINES * len(documents)
    layouts = [_layout(document, most, letters, left) for document in documents]
    order = sorted(range(len(layouts)), key=lambda k: layouts[k].height)
    for place, k in enumerate(order):
        share = left // (len(order) - place)
        if layouts[k].height > share:
            layouts[k] = _layout(documents[k], most, letters, share)
        left -= layouts[k].height
    return layouts
