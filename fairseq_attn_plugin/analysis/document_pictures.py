"""Documents with the weights of their words and sentences in colour, as HTML and as pictures.

As in Yang et al. 2016, figures 5 and 6: a line is a sentence; red on its left is the weight of the sentence, blue
behind a word is sqrt(p_s) p_w, the word's weight p_w with that of its sentence, so that an important word stands out in
an important sentence only. Both colours are full at the document's greatest value. For a flat model, whose words are
weighed within the document, blue is p_w and there is no red.
"""

from __future__ import annotations

import html
import math
import os
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple, Union

from fairseq_attn_plugin._writing import whole_file, whole_text
from fairseq_attn_plugin.errors import OptionError

from .plot import SUFFIXES, check_drawing

__all__ = ["Row", "check_picture", "draw", "draw_html", "draw_picture", "shaded"]

PathLike = Union[str, "os.PathLike[str]"]
SENTENCE_COLOUR, WORD_COLOUR = (201, 42, 42), (28, 126, 214)
HTML = (".html", ".htm")


class Row(NamedTuple):
    """A sentence to draw; shades are from 0 to 1."""

    shade: Optional[float]
    words: List[str]
    shades: List[float]
    skipped: bool = False  # sentences before this one are not drawn


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
        rows.append(Row(shade, document.sentences[k], [v / top for v in values[k]], k != before + 1))
    return rows


def draw(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """Draws documents to ``path``, whose suffix is the format: HTML, PNG, SVG or PDF.

    Raises ``OptionError`` for another suffix, without matplotlib, or if it cannot be written.
    """
    check_picture(path)
    (draw_html if Path(path).suffix.lower() in HTML else draw_picture)(documents, path, most)


def _title(document: Any) -> str:
    gold = "" if document.gold is None else f"label: {document.gold}, "
    return f"{document.id}: {gold}prediction: {document.label} ({100 * document.probability:.1f} %)"


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
    with whole_text(path, f"--plot {path}: cannot be written") as stream:
        stream.write(
            '<!DOCTYPE html>\n<html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>Weights of words and sentences</title><style>{_STYLE}</style></head><body>\n"
            "<h1>Weights of words and sentences</h1>\n<div class=key>"
            f'<b style="background:{_colour(SENTENCE_COLOUR, 0.8)}"></b> weight of the sentence &nbsp; '
            f'<b style="background:{_colour(WORD_COLOUR, 0.6)}">word</b> weight of the word, times the square root of '
            "that of its sentence</div>\n"
        )
        for document in documents:
            wrong = document.gold is not None and document.gold != document.label
            stream.write(f"<h2{' class=wrong' if wrong else ''}>{html.escape(_title(document))}</h2>\n")
            for row in shaded(document, most):
                if row.skipped:
                    stream.write("<div class=more>…</div>\n")
                mark = ""
                if row.shade is not None:
                    mark = (
                        f'<i title="sentence: {100 * row.shade:.0f} % of the greatest"><b style="background:'
                        f'{_colour(SENTENCE_COLOUR, row.shade)}"></b></i>'
                    )
                words = " ".join(
                    f'<b style="background:{_colour(WORD_COLOUR, shade)}" title="{100 * shade:.0f} % of the greatest">'
                    f"{html.escape(word)}</b>"
                    for word, shade in zip(row.words, row.shades)
                )
                stream.write(f"<p>{mark}<span dir=auto>{words}</span></p>\n")
            if not document.sentences:
                stream.write("<div class=more>a document without words</div>\n")
        stream.write("</body></html>\n")


_WIDTH, _SIZE, _LINE = 8.0, 10.0, 0.235  # inches, points, inches
_LEFT = 0.22  # inches: where words begin


def draw_picture(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """The documents one below the other, words flowing in lines of eight inches."""
    path = check_drawing(path)
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import Rectangle
    from matplotlib.textpath import TextPath

    plain, bold = FontProperties("DejaVu Sans", size=_SIZE), FontProperties("DejaVu Sans", size=_SIZE, weight="bold")
    widths = {}

    def width_of(text: str) -> float:
        if text not in widths:
            # of the outline: what is drawn may be finer than any canvas
            widths[text] = TextPath((0, 0), text, prop=plain, usetex=False).get_extents().width / 72 if text else 0.0
        return max(widths[text], 0.05)

    placed: List[Tuple[float, float, str, float]] = []  # x, line, word, shade
    marks: List[Tuple[float, float, float]] = []  # line, lines, shade
    titles: List[Tuple[float, str]] = []
    line = 0.0
    for document in documents:
        titles.append((line, _title(document)))
        line += 1.2
        for row in shaded(document, most):
            if row.skipped:
                placed.append((_LEFT, line, "…", 0.0))
                line += 1
            first, x = line, _LEFT
            for word, shade in zip(row.words, row.shades):
                # a dollar sign would begin a formula
                shown = word.replace("\\", "\\\\").replace("$", r"\$") if "$" in word else word
                width = width_of(shown)
                if x > _LEFT and x + width > _WIDTH:
                    x, line = _LEFT, line + 1
                placed.append((x, line, shown, shade))
                x += width + 0.1
            line += 1
            if row.shade is not None:
                marks.append((first, line - first, row.shade))
        if not document.sentences:
            placed.append((_LEFT, line, "a document without words", 0.0))
            line += 1
        line += 0.8
    height = max(line, 1.0) * _LINE
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "documents", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(_WIDTH + 0.1, height), facecolor="white")
        FigureCanvasAgg(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, _WIDTH + 0.1)
        axes.set_ylim(height, 0)
        axes.axis("off")
        for start, count, shade in marks:
            colour = tuple(part / 255 for part in SENTENCE_COLOUR)
            axes.add_patch(Rectangle((0.02, start * _LINE + 0.02), 0.12, count * _LINE - 0.04, color="#f1f3f5", lw=0))
            corner = (0.02, start * _LINE + 0.02)
            axes.add_patch(Rectangle(corner, 0.12, count * _LINE - 0.04, color=colour, alpha=shade, lw=0))
        for x, start, word, shade in placed:
            if shade > 0:
                colour = tuple(part / 255 for part in WORD_COLOUR)
                corner = (x - 0.03, start * _LINE + 0.02)
                axes.add_patch(
                    Rectangle(corner, width_of(word) + 0.06, _LINE - 0.04, color=colour, alpha=min(shade, 1.0), lw=0)
                )
            axes.text(x, (start + 0.72) * _LINE, word, fontproperties=plain, va="baseline")
        for start, title in titles:
            axes.text(0.02, (start + 0.75) * _LINE, title.replace("$", r"\$"), fontproperties=bold, va="baseline")
        metadata: Any = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
        with whole_file(path, f"--plot {path}: cannot be written") as partial:
            figure.savefig(
                partial, dpi=150, metadata=metadata, format=path.suffix[1:].lower(), bbox_inches="tight", pad_inches=0.1
            )
