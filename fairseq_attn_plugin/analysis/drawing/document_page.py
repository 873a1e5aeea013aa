"""Writes classified documents as one page that can be searched, read by keyboard, and read as tables.

:mod:`.document_rows` defines the colours of words and sentences.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Sequence

from markupsafe import Markup

from fairseq_attn_plugin.analysis.drawing.document_rows import (
    SCALE,
    STEPS,
    Row,
    is_wrong,
    keys,
    left_out,
    left_out_after,
    shade,
    shaded,
    title_of,
)
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.pages.parts import html_table
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike, whole_text

__all__ = ["check_page", "draw_documents"]


_WORDS = 5  # of a sentence in a table
_FLAT_WORDS = 20  # of a document in a table


def check_page(path: PathLike) -> None:
    """Raises ``OptionError`` if the file does not end as a page does."""
    suffix = Path(path).suffix.lower()
    if suffix not in (".html", ".htm"):
        raise OptionError(f"--plot {path}: cannot draw {suffix or 'a file without suffix'}; use .html")


def draw_documents(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """Writes the page; ``most`` is the greatest number of sentences of a document (0: all).

    Raises:
        OptionError: the file cannot be written
    """
    red, blue = keys(documents)
    text = frame.page(
        "documents.html",
        "Weights of words and sentences",
        style=frame.read_asset("documents.css"),
        script=frame.read_asset("scroll.js", "documents.js"),
        sentence_key=red,
        word_key=blue,
        scale=SCALE,
        steps=[(step, shade(step)) for step in STEPS],
        wrong=sum(map(is_wrong, documents)),
        left_out=left_out,
        documents=[_values(document, most) for document in documents],
    )
    with whole_text(path, f"--plot {path}: cannot be written") as stream:
        stream.write(text)


def _values(document: Any, most: int) -> Any:
    """The values of a document that the template shows."""
    rows = shaded(document, most)
    return {
        "id": document.id,
        "label": document.label,
        "title": title_of(document.id, document.gold, document.label, document.probability),
        "wrong": is_wrong(document),
        "rows": rows,
        "table": _table(rows) if rows else "",
        "after": left_out_after(document, rows),
    }


def _table(rows: Sequence[Row]) -> Markup:
    """The sentences with the words of greatest weight; of a flat model, the words of greatest weight."""
    if rows[0].weight is None:
        words = [one for row in rows for one in zip(row.words, row.weights, row.word_times)]
        words.sort(key=lambda one: -one[1])
        return html_table(
            ["word", "weight", "times uniform"],
            [[word, f"{weight:.3g}", f"{times:.2f}"] for word, weight, times in words[:_FLAT_WORDS]],
            align="lrr",
        )
    return html_table(
        ["sentence", "weight", "times uniform", "words of greatest weight"],
        [[row.number, f"{row.weight:.3g}", row.times, ", ".join(_heaviest(row))] for row in rows],
        align="rrrl",
    )


def _heaviest(row: Row) -> List[str]:
    order = sorted(zip(row.weights, row.words), key=lambda one: -one[0])
    return [f"{word} {weight:.2f}" for weight, word in order[:_WORDS]]
