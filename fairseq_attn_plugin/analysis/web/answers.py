"""The answers of ``attn-analysis serve``, in JSON: a translation with its attention, and an error."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from fastapi.responses import JSONResponse

from fairseq_attn_plugin.analysis.inference.translator import Translation
from fairseq_attn_plugin.analysis.records.record import DIGITS
from fairseq_attn_plugin.analysis.web.explore import finite, side

__all__ = ["as_json", "error"]


def as_json(translation: Translation) -> Dict[str, Any]:
    """A translation as values for JSON: its tokens, words, log probabilities and weights.

    Words are spelt as in ordinary text; tokens are those of the model. Numbers are rounded as in the files of extract,
    and a number that is not finite is None.
    """
    record = translation.record

    def rounded(rows: Any) -> List[List[Optional[float]]]:
        return [[finite(weight, DIGITS) for weight in row] for row in rows]

    source = side(record.source, record.subwords, translation.source_words)
    return {
        "text": translation.text,
        "score": finite(translation.score, DIGITS),
        "source": {**source, "unknown": translation.unknown},
        "target": side(record.target, record.subwords, translation.target_words),
        "scores": [finite(score, DIGITS) for score in record.scores],
        "attention": rounded(record.attention),
        "words": {
            "source": translation.source_words,
            "target": translation.target_words,
            "attention": rounded(record.word_attention()),
        },
    }


def error(status: int, message: str, headers: Any = None) -> JSONResponse:
    """The one form of all errors."""
    return JSONResponse({"error": message}, status_code=status, headers=headers)
