"""The answers of ``fairseq-attn serve``, in JSON: a translation with its attention, and an error."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

from fastapi.responses import JSONResponse

from fairseq_attn_plugin.analysis.inference.translation import Translation
from fairseq_attn_plugin.analysis.records.record import DIGITS
from fairseq_attn_plugin.analysis.web.explore import finite, side
from fairseq_attn_plugin.text.sentences import SEVERAL, has_several_sentences

__all__ = ["as_json", "error", "reply"]


def as_json(translation: Translation) -> Dict[str, Any]:
    """A translation as values for JSON: its tokens, words, log probabilities and weights.

    Words are spelt as in ordinary text; tokens are those of the model. Numbers are rounded as in the files of extract,
    and a number that is not finite is None.
    """
    record = translation.record

    source = side(record.source, record.subwords, translation.source_words)
    return {
        "text": translation.text,
        "score": finite(translation.score, DIGITS),
        "source": {**source, "unknown": translation.unknown},
        "target": side(record.target, record.subwords, translation.target_words),
        "given": translation.given,
        "scores": [finite(score, DIGITS) for score in record.scores],
        "attention": _rounded(record.attention),
        "words": {
            "source": translation.source_words,
            "target": translation.target_words,
            "attention": _rounded(record.word_attention()),
        },
    }


def reply(translations: Sequence[Translation], text: str) -> Dict[str, Any]:
    """The answer to a request: the translations of ``text``, and remarks on what may be lost of it."""
    remarks = [SEVERAL] if has_several_sentences(text) else []
    return {"translations": [as_json(one) for one in translations], "remarks": remarks}


def _rounded(rows: Any) -> List[List[Optional[float]]]:
    return [[finite(weight, DIGITS) for weight in row] for row in rows]


def error(status: int, message: str, headers: Any = None) -> JSONResponse:
    """The one form of all errors."""
    return JSONResponse({"error": message}, status_code=status, headers=headers)
