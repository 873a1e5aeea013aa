"""Draws classified documents as a picture: one below the other, their words in lines of eight inches."""

from __future__ import annotations

from typing import Any, List, Sequence, Tuple

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, check_drawing, save
from fairseq_attn_plugin.analysis.drawing.colours import LIGHT
from fairseq_attn_plugin.analysis.drawing.document_layout import (
    KEY_LINES,
    LEAST_LINES,
    LEFT,
    MOST_LINES,
    TITLE_LINES,
    WIDTH,
    Layout,
    Letters,
    Word,
    layouts,
)
from fairseq_attn_plugin.analysis.drawing.document_rows import (
    SCALE,
    SENTENCE_COLOUR,
    STEPS,
    WORD_COLOUR,
    is_wrong,
    keys,
    left_out,
    shade,
    title_of,
)
from fairseq_attn_plugin.analysis.drawing.fonts import literal
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["draw_picture"]


_LINE = 0.235  # inches
_GREY, _WRONG = LIGHT.muted, "#b3261e"


class _Sheet:
    """Draws texts and boxes; ``line`` counts from the top and may be a fraction."""

    def __init__(self, axes: Any, letters: Letters):
        self.line = 0.0
        self._axes, self._letters = axes, letters
        self._boxes: List[Any] = []
        self._colours: List[Any] = []

    def write(self, x: float, text: str, colour: Any = "black", bold: bool = False) -> None:
        font = self._letters.bold if bold else self._letters.plain
        drawn = self._axes.text(
            x, (self.line + 0.72) * _LINE, literal(text), fontproperties=font, va="baseline", color=colour
        )
        drawn.set_in_layout(False)  # text within the axes need not be measured again

    def note(self, text: str) -> None:
        """A grey text on its own line."""
        self.write(LEFT, text, _GREY)
        self.line += 1

    def box(self, x: float, width: float, lines: float, colour: Any, shade: float) -> None:
        from matplotlib.colors import to_rgba

        top, bottom = self.line * _LINE + 0.02, (self.line + lines) * _LINE - 0.02
        self._boxes.append([(x, top), (x + width, top), (x + width, bottom), (x, bottom)])
        self._colours.append(to_rgba(colour, max(0.0, min(shade, 1.0))))

    def key(self, texts: Tuple[str, str]) -> None:
        """The meaning of red and blue, and of their shades, in two lines."""
        x = 0.02
        for text, colour in zip(texts, (SENTENCE_COLOUR, WORD_COLOUR)):
            if text:
                for step in STEPS[1:]:
                    self.box(x, 0.1, 1, colour, shade(step))
                    x += 0.1
                self.write(x + 0.08, text, _GREY)
                x += 0.08 + self._letters.width(text) + 0.2
        self.line += 1
        self.write(0.02, SCALE, _GREY)

    def document(self, document: Any, layout: Layout) -> None:
        self._title(document)
        self.line += 1.2
        for row, lines in zip(layout.rows, layout.lines):
            if row.skipped:
                self.note(left_out(row.skipped))
            if row.shade is not None:
                self.box(0.02, 0.12, len(lines), "#f1f3f5", 1.0)
                self.box(0.02, 0.12, len(lines), SENTENCE_COLOUR, row.shade)
            for words in lines:
                self._words(words)
        if layout.after:
            self.note(left_out(layout.after))
        if not layout.rows:
            self.note("a document without words")
        self.line += TITLE_LINES - 1.2

    def _title(self, document: Any) -> None:
        def fit(text: str, width: float) -> str:
            return self._letters.fit(text, width, bold=True)

        gold = None if document.gold is None else fit(document.gold, 1.4)
        text = title_of(fit(document.id, 2.8), gold, fit(document.label, 1.4), document.probability)
        self.write(0.02, text, _WRONG if is_wrong(document) else "black", bold=True)

    def _words(self, words: Sequence[Word]) -> None:
        """A line of words."""
        for word in words:
            if word.shade >= 0.005:
                self.box(word.x - 0.03, self._letters.width(word.text) + 0.06, 1, WORD_COLOUR, word.shade)
            self.write(word.x, word.text)
        self.line += 1

    def finish(self) -> None:
        """Adds the boxes to the picture, as one artist: thousands of artists are slow."""
        from matplotlib.collections import PolyCollection

        boxes = PolyCollection(self._boxes, facecolors=self._colours, linewidths=0, zorder=1)
        self._axes.add_collection(boxes, autolim=False)


def draw_picture(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """Draws the picture, at most 400 lines.

    Documents have equal shares of the lines. A longer document shows the sentences of greatest weight in their order,
    with notes on the number of sentences left out. Documents from the eightieth on are left out. A word that is wider
    than the picture is shortened.
    Raises ``OptionError`` for a suffix other than PNG, SVG and PDF, without matplotlib, or if the file cannot be
    written.
    """
    path = check_drawing(path)
    shown = documents[: int(MOST_LINES - KEY_LINES) // (TITLE_LINES + LEAST_LINES)]
    with canvas("documents", (1, 1)) as figure:
        letters = Letters()
        made = layouts(shown, most, letters)
        height = (KEY_LINES + TITLE_LINES * len(shown) + 0.4 + sum(max(layout.height, 1) for layout in made)) * _LINE
        figure.set_size_inches(WIDTH + 0.1, height)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, WIDTH + 0.1)
        axes.set_ylim(height, 0)
        axes.axis("off")
        sheet = _Sheet(axes, letters)
        sheet.key(keys(shown))
        sheet.line = KEY_LINES
        for document, layout in zip(shown, made):
            sheet.document(document, layout)
        if len(shown) < len(documents):
            sheet.line -= 0.6
            sheet.write(0.02, left_out(len(documents) - len(shown), "document"), _GREY)
        sheet.finish()
        try:
            save(figure, path)
        except OptionError as error:
            reason = str(error).rpartition("cannot write the picture: ")[2]
            raise OptionError(f"--plot {path}: cannot be written: {reason}") from None
