"""Writes classified documents as one page; a tooltip gives the weight of each word and sentence."""

from __future__ import annotations

from functools import partial
from typing import Any, Sequence, Tuple

from fairseq_attn_plugin.analysis.drawing.document_rows import (
    SENTENCE_COLOUR,
    WORD_COLOUR,
    is_wrong,
    keys,
    left_out,
    left_out_after,
    shaded,
    title_of,
)
from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.writing import PathLike, whole_text

__all__ = ["draw_html"]


def draw_html(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """Writes the page. Raises ``OptionError`` if the file cannot be written."""
    red, blue = keys(documents)
    text = frame.page(
        "documents.html",
        "Weights of words and sentences",
        style=frame.read_asset("documents.css"),
        sentence_key=red,
        word_key=blue,
        sentence_colour=partial(_colour, SENTENCE_COLOUR),
        word_colour=partial(_colour, WORD_COLOUR),
        left_out=left_out,
        documents=[_values(document, most) for document in documents],
    )
    with whole_text(path, f"--plot {path}: cannot be written") as stream:
        stream.write(text)


def _values(document: Any, most: int) -> Any:
    """The values of a document that the template shows."""
    rows = shaded(document, most)
    return {
        "title": title_of(document.id, document.gold, document.label, document.probability),
        "wrong": is_wrong(document),
        "rows": rows,
        "after": left_out_after(document, rows),
    }


def _colour(colour: Tuple[int, int, int], shade: float) -> str:
    return "rgba(%d,%d,%d,%.2f)" % (*colour, max(0.0, min(shade, 1.0)))
