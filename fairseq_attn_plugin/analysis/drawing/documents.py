"""Documents with the weights of their words and sentences in colour, as HTML and as pictures.

As in Yang et al. 2016, figures 5 and 6: a line is a sentence; red on its left is the weight of the sentence, blue
behind a word is sqrt(p_s) p_w, the word's weight p_w with that of its sentence, so that an important word stands out in
an important sentence only. Both colours are full at the document's greatest value. For a flat model, whose words are
weighed within the document, blue is p_w and there is no red.

A page shows every sentence. A picture has at most 400 lines: of a document that is too long, those of its weightiest
sentences.
"""

from __future__ import annotations

import html
import math
import os
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from fairseq_attn_plugin.analysis.drawing.canvas import SUFFIXES, canvas, check_drawing, save
from fairseq_attn_plugin.analysis.drawing.fonts import families, literal
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_text

__all__ = ["Row", "check_picture", "draw", "draw_html", "draw_picture", "shaded"]


PathLike = Union[str, "os.PathLike[str]"]
SENTENCE_COLOUR, WORD_COLOUR = (201, 42, 42), (28, 126, 214)
HTML = (".html", ".htm")


class Row(NamedTuple):
    """A sentence to draw; shades are from 0 to 1. A flat model's sentence has neither shade nor weight."""

    shade: Optional[float]
    words: List[str]
    shades: List[float]
    weight: Optional[float]
    weights: List[float]
    skipped: int = 0  # how many sentences right before this one are left out


def check_picture(path: PathLike) -> None:
    """Raises ``OptionError`` if a file of this kind cannot be drawn here."""
    suffix = Path(path).suffix.lower()
    if suffix not in (*HTML, *SUFFIXES):
        raise OptionError(
            f"--plot {path}: cannot draw {suffix or 'a file without suffix'}; use .html or {', '.join(SUFFIXES)}"
        )
    if suffix not in HTML:
        check_drawing(path)


def shaded(document: Any, most: int = 0) -> List[Row]:
    """The sentences of a document (a ``Classified``) with their shades, at ``most`` the weightiest of them (0: all)."""
    shares = document.sentence_weights
    values = [
        [weight * (1.0 if shares is None else math.sqrt(max(shares[k], 0.0))) for weight in weights]
        for k, weights in enumerate(document.word_weights)
    ]
    top = max((value for row in values for value in row), default=0.0) or 1.0
    # a flat model's sentences have the weight of their words
    order = shares if shares is not None else [sum(weights) for weights in document.word_weights]
    kept = sorted(sorted(range(len(values)), key=lambda k: -order[k])[: most or len(values)])
    greatest = max(shares, default=0.0) or 1.0 if shares is not None else 1.0
    rows = []
    for place, k in enumerate(kept):
        shade = None if shares is None else shares[k] / greatest
        before = kept[place - 1] if place else -1
        weight = None if shares is None else shares[k]
        shades = [value / top for value in values[k]]
        rows.append(Row(shade, document.sentences[k], shades, weight, document.word_weights[k], k - before - 1))
    return rows


def _after(document: Any, rows: Sequence[Row]) -> int:
    """How many sentences after the last of ``rows`` are left out."""
    return len(document.sentences) - sum(row.skipped + 1 for row in rows)


def _left_out(count: int, what: str = "sentence") -> str:
    return f"… {count} {what}{'' if count == 1 else 's'} left out"


def draw(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """Draws documents to ``path``, whose suffix is the format: HTML, PNG, SVG or PDF.

    Raises ``OptionError`` for another suffix, without matplotlib, or if it cannot be written.
    """
    check_picture(path)
    (draw_html if Path(path).suffix.lower() in HTML else draw_picture)(documents, path, most)


def _title(name: str, gold: Optional[str], label: str, probability: float) -> str:
    known = "" if gold is None else f"label: {gold}, "
    return f"{name}: {known}prediction: {label} ({100 * probability:.1f} %)"


def _wrong(document: Any) -> bool:
    return document.gold is not None and document.gold != document.label


def _key(documents: Sequence[Any]) -> Tuple[str, str]:
    """What red is (nothing where all documents are of a flat model), and what blue is."""
    flat = [document.sentence_weights is None for document in documents]
    if all(flat):
        return "", "weight of the word in the document"
    blue = "weight of the word, times the square root of that of its sentence"
    return "weight of the sentence", blue + (", if it has one" if any(flat) else "")


_STYLE = """
body { font: 15px/1.7 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em; color: #212529;
  background: #fff }
h1 { font-size: 1.25em } h2 { font-size: 1em; margin: 2em 0 .4em } h2.wrong { color: #c92a2a }
p { display: flex; margin: 0 0 2px } p > i { flex: none; width: .9em; margin-right: .6em; background: #f1f3f5 }
p > i > b { display: block; height: 100% } p > span { flex: 1; overflow-wrap: anywhere }
span > b { font-weight: normal; padding: .1em .12em; border-radius: 2px } .more { color: #868e96; margin-left: 1.5em }
.key b { padding: .1em .4em; font-weight: normal }
"""


def _colour(colour: Tuple[int, int, int], shade: float) -> str:
    return "rgba(%d,%d,%d,%.2f)" % (*colour, max(0.0, min(shade, 1.0)))


def draw_html(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """One self-contained page; pointing at a word or the mark of a sentence shows its weight."""
    red, blue = _key(documents)
    key = f'<b style="background:{_colour(WORD_COLOUR, 0.6)}">word</b> {blue}'
    if red:
        key = f'<b style="background:{_colour(SENTENCE_COLOUR, 0.8)}"></b> {red} &nbsp; {key}'
    with whole_text(path, f"--plot {path}: cannot be written") as stream:
        stream.write(
            '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>Weights of words and sentences</title><style>{_STYLE}</style></head><body>\n"
            f"<h1>Weights of words and sentences</h1>\n<div class=key>{key}</div>\n"
        )
        for document in documents:
            title = _title(document.id, document.gold, document.label, document.probability)
            stream.write(f"<h2{' class=wrong' if _wrong(document) else ''}>{html.escape(title)}</h2>\n")
            rows = shaded(document, most)
            for row in rows:
                if row.skipped:
                    stream.write(f"<div class=more>{_left_out(row.skipped)}</div>\n")
                mark = ""
                if row.shade is not None and row.weight is not None:
                    mark = (
                        f'<i title="weight of the sentence: {row.weight:.3g}; colour: {100 * row.shade:.0f} % of the '
                        f'greatest"><b style="background:{_colour(SENTENCE_COLOUR, row.shade)}"></b></i>'
                    )
                words = " ".join(
                    f'<b style="background:{_colour(WORD_COLOUR, shade)}" title="weight of the word: {weight:.3g}; '
                    f'colour: {100 * shade:.0f} % of the greatest">{html.escape(word)}</b>'
                    for word, shade, weight in zip(row.words, row.shades, row.weights)
                )
                stream.write(f"<p>{mark}<span dir=auto>{words}</span></p>\n")
            if _after(document, rows):
                stream.write(f"<div class=more>{_left_out(_after(document, rows))}</div>\n")
            if not document.sentences:
                stream.write("<div class=more>a document without words</div>\n")
        stream.write("</body></html>\n")


_WIDTH, _SIZE, _LINE = 8.0, 10.0, 0.235  # inches, points, inches
_LEFT = 0.22  # inches: where words begin
_SPACE = 0.1  # inches between words
_MOST_LINES = 400  # of a picture: 14100 pixels, where many programs read no more than 2^15
_TITLE_LINES = 2  # of a document: its title, and the space around it
_LEAST_LINES = 3  # of a document's sentences: one line, and what is left out before and after it
_GREY = "#868e96"


class _Letters:
    """Widths of texts in inches."""

    def __init__(self, fonts: List[str]) -> None:
        from matplotlib.font_manager import FontProperties

        self.plain = FontProperties(family=fonts, size=_SIZE)
        self.bold = FontProperties(family=fonts, size=_SIZE, weight="bold")
        self._widths: Dict[Tuple[str, bool], float] = {}

    def width(self, text: str, bold: bool = False) -> float:
        from matplotlib.textpath import text_to_path

        if (text, bold) not in self._widths:
            # of the outline: what is drawn may be finer than any canvas
            prop = self.bold if bold else self.plain
            points = text_to_path.get_text_width_height_descent(text, prop, ismath=False)[0] if text else 0.0
            self._widths[text, bold] = max(points / 72, 0.05)
        return self._widths[text, bold]

    def fit(self, text: str, width: float, bold: bool = False) -> str:
        """``text``, or as much of its beginning as has room, and an ellipsis."""
        most = 500  # letters: more have no room in a line
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


class _Word(NamedTuple):
    x: float  # inches
    text: str
    shade: float


def _flow(row: Row, letters: _Letters) -> List[List[_Word]]:
    """The lines of a sentence."""
    lines: List[List[_Word]] = [[]]
    x = _LEFT
    for word, shade in zip(row.words, row.shades):
        text = letters.fit(word, _WIDTH - _LEFT)
        width = letters.width(text)
        if x > _LEFT and x + width > _WIDTH:
            x = _LEFT
            lines.append([])
        lines[-1].append(_Word(x, text, shade))
        x += width + _SPACE
    return lines


class _Layout(NamedTuple):
    """The sentences of a document with their lines."""

    rows: List[Row]
    lines: List[List[List[_Word]]]
    after: int  # sentences left out at the end

    @property
    def height(self) -> int:
        """In lines, with those that say what is left out."""
        return sum(map(len, self.lines)) + sum(row.skipped > 0 for row in self.rows) + (self.after > 0)


def _layout(document: Any, most: int, letters: _Letters, room: int) -> _Layout:
    """As many of the weightiest sentences (at ``most``; 0: all) as fit into ``room`` lines, and at least one."""

    def of(count: int) -> _Layout:
        rows = shaded(document, count)
        return _Layout(rows, [_flow(row, letters) for row in rows], _after(document, rows))

    count = min(most or len(document.sentences), len(document.sentences))
    if count <= room:
        layout = of(count)
        if layout.height <= room or count <= 1:
            return _cut(layout, room)
    # one more sentence takes a line or more, and saves one at most
    fits, long = 1, min(count, room + 1)
    while long - fits > 1:
        middle = (fits + long) // 2
        if of(middle).height <= room:
            fits = middle
        else:
            long = middle
    return _cut(of(fits), room)


def _cut(layout: _Layout, room: int) -> _Layout:
    """If its only sentence is longer than ``room`` lines, the beginning of it."""
    over = layout.height - room
    if over <= 0 or len(layout.lines) != 1:
        return layout
    lines = layout.lines[0][: max(len(layout.lines[0]) - over, 1)]
    while len(lines[-1]) > 1 and lines[-1][-1].x > _WIDTH - 0.3:
        lines[-1].pop()
    last = lines[-1][-1]
    lines[-1][-1] = last._replace(text=last.text.rstrip("…") + " …")
    return layout._replace(lines=[lines])


def _layouts(documents: Sequence[Any], most: int, letters: _Letters) -> List[_Layout]:
    """Those of all documents. What short ones leave of their equal shares of the lines goes to long ones."""
    left = _MOST_LINES - _TITLE_LINES * (len(documents) + 1)
    layouts = [_layout(document, most, letters, left) for document in documents]
    order = sorted(range(len(layouts)), key=lambda k: layouts[k].height)
    for place, k in enumerate(order):
        share = left // (len(order) - place)
        if layouts[k].height > share:
            layouts[k] = _layout(documents[k], most, letters, share)
        left -= layouts[k].height
    return layouts


def draw_picture(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """The documents one below the other, words flowing in lines of eight inches.

    A picture has at most 400 lines. Documents have equal shares of them; one that is longer shows its weightiest
    sentences, in their order, and how many are left out where. From the eightieth on, documents are left out.
    A word wider than the picture is shortened.
    """
    path = check_drawing(path)
    from matplotlib.collections import PolyCollection
    from matplotlib.colors import to_rgba

    shown = documents[: (_MOST_LINES - _TITLE_LINES) // (_TITLE_LINES + _LEAST_LINES)]
    texts = {word for document in shown for sentence in document.sentences for word in sentence}
    names = {text for document in shown for text in (document.id, document.gold or "", document.label)}
    fonts, _ = families({*texts, *names})
    red, blue = (tuple(part / 255 for part in colour) for colour in (SENTENCE_COLOUR, WORD_COLOUR))
    with canvas("documents", (1, 1), fonts) as figure:
        letters = _Letters(fonts)
        layouts = _layouts(shown, most, letters)
        lines = _TITLE_LINES * (len(shown) + 1) + sum(max(layout.height, 1) for layout in layouts)
        height = lines * _LINE
        figure.set_size_inches(_WIDTH + 0.1, height)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, _WIDTH + 0.1)
        axes.set_ylim(height, 0)
        axes.axis("off")

        def write(x: float, line: float, text: str, colour: Any = "black", bold: bool = False) -> None:
            font = letters.bold if bold else letters.plain
            drawn = axes.text(x, (line + 0.72) * _LINE, literal(text), fontproperties=font, va="baseline", color=colour)
            drawn.set_in_layout(False)  # it is within the axes: no need to measure it again

        boxes: List[Any] = []
        colours: List[Any] = []

        def box(x: float, line: float, width: float, count: float, colour: Any, shade: float) -> None:
            top, bottom = line * _LINE + 0.02, (line + count) * _LINE - 0.02
            boxes.append([(x, top), (x + width, top), (x + width, bottom), (x, bottom)])
            colours.append(to_rgba(colour, max(0.0, min(shade, 1.0))))

        def key(x: float) -> None:
            for text, colour in zip(_key(shown), (red, blue)):
                if text:
                    box(x, 0, 0.12, 1, colour, 0.7)
                    write(x + 0.2, 0, text, _GREY)
                    x += 0.2 + letters.width(text) + 0.25

        def name(line: float, document: Any) -> None:
            who, label = letters.fit(document.id, 2.8, bold=True), letters.fit(document.label, 1.4, bold=True)
            gold = None if document.gold is None else letters.fit(document.gold, 1.4, bold=True)
            colour = red if _wrong(document) else "black"
            write(0.02, line, _title(who, gold, label, document.probability), colour, bold=True)

        key(0.02)
        line = 1.6
        for document, layout in zip(shown, layouts):
            name(line, document)
            line += 1.2
            for row, flow in zip(layout.rows, layout.lines):
                if row.skipped:
                    write(_LEFT, line, _left_out(row.skipped), _GREY)
                    line += 1
                if row.shade is not None:
                    box(0.02, line, 0.12, len(flow), "#f1f3f5", 1.0)
                    box(0.02, line, 0.12, len(flow), red, row.shade)
                for words in flow:
                    for word in words:
                        if word.shade >= 0.005:
                            box(word.x - 0.03, line, letters.width(word.text) + 0.06, 1, blue, word.shade)
                        write(word.x, line, word.text)
                    line += 1
            if layout.after:
                write(_LEFT, line, _left_out(layout.after), _GREY)
                line += 1
            if not layout.rows:
                write(_LEFT, line, "a document without words", _GREY)
                line += 1
            line += _TITLE_LINES - 1.2
        if len(shown) < len(documents):
            write(0.02, line - 0.6, _left_out(len(documents) - len(shown), "document"), _GREY)
        # one artist: thousands of them take long
        axes.add_collection(PolyCollection(boxes, facecolors=colours, linewidths=0, zorder=1), autolim=False)
        try:
            save(figure, path)
        except OptionError as error:
            reason = str(error).rpartition("cannot write the picture: ")[2]
            raise OptionError(f"--plot {path}: cannot be written: {reason}") from None
