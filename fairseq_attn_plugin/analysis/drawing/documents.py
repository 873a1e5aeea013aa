"""Draws classified documents with the weights of their words and sentences in colour, as HTML or as a picture.

:mod:`.document_rows` defines the colours. A page shows every sentence. A picture has at most 400 lines; of a longer
document it shows the sentences of greatest weight.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from fairseq_attn_plugin.analysis.drawing.canvas import SUFFIXES, check_drawing
from fairseq_attn_plugin.analysis.drawing.document_page import draw_html
from fairseq_attn_plugin.analysis.drawing.document_picture import draw_picture
from fairseq_attn_plugin.analysis.drawing.document_rows import shaded
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import PathLike

__all__ = ["check_picture", "draw_documents", "draw_html", "draw_picture", "shaded"]


HTML = (".html", ".htm")


def check_picture(path: PathLike) -> None:
    """Raises ``OptionError`` if this machine cannot draw a file of this format."""
    suffix = Path(path).suffix.lower()
    if suffix not in (*HTML, *SUFFIXES):
        raise OptionError(
            f"--plot {path}: cannot draw {suffix or 'a file without suffix'}; use .html or {', '.join(SUFFIXES)}"
        )
    if suffix not in HTML:
        check_drawing(path)


def draw_documents(documents: Sequence[Any], path: PathLike, most: int = 0) -> None:
    """Draws documents to ``path``, whose suffix is the format: HTML, PNG, SVG or PDF.

    ``most`` is the greatest number of sentences of a document (0: all).
    Raises ``OptionError`` for another suffix, without matplotlib, or if the file cannot be written.
    """
    check_picture(path)
    (draw_html if Path(path).suffix.lower() in HTML else draw_picture)(documents, path, most)
