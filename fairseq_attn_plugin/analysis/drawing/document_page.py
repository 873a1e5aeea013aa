"""Classified documents as rows: sentences with the shades of their words, after Yang et al. 2016, figures 5 and 6.

A row is a sentence. The red at its left is the weight p_s of the sentence. The blue behind a word is sqrt(p_s) p_w, the
weight p_w of the word with the weight of its sentence, so an important word is dark only in an important sentence. In a
flat model words are weighted within the document: blue is p_w, and there is no red.

Shades compare with uniform weights, 1/S of S sentences and 1/T of the T words of a sentence (in a flat model of the
document); weights that do not sum to one are divided by their sum. A weight r times as great, r = S p_s for a sentence
and T p_w sqrt(S p_s) for a word, has the shade log(r) / log(8), at least 0 and at most 1: uniform weights have no
colour, and shades mean the same in all documents.
"""

import math
from typing import Any, List, NamedTuple, Optional, Sequence

from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import PathLike, whole_text

STEPS = (1, 2, 4, 8)  # times the uniform weight, for legends; the last has the full colour
SCALE = "No colour: uniform weights, or less. Full colour: 8 times the uniform weight, or more."


class Row(NamedTuple):
    """A sentence to draw. In a flat model sentences have neither a weight nor ``times``."""

    number: int  # in the document, from 1
    words: List[str]
    weight: Optional[float]
    weights: List[float]  # of the words
    times: Optional[float]  # the uniform weight
    word_times: List[float]  # the same of the words; in a sentence of weight, times its root


def shade(times: float) -> float:
    """The shade of a weight that is ``times`` the uniform weight, from 0 to 1."""
    return min(math.log(max(times, 1.0)) / math.log(STEPS[-1]), 1.0)


def shaded(document: Any) -> List[Row]:
    """The sentences of a ``Classified`` document with their shades."""
    shares, every = document.sentence_weights, [one for weights in document.word_weights for one in weights]
    share, word = _mean(shares or []), _mean(every)
    rows: List[Row] = []
    for k, (words, weights) in enumerate(zip(document.sentences, document.word_weights)):
        weight = None if shares is None else shares[k]
        times = None if weight is None else max(weight, 0.0) / share
        # in a flat model words are weighted within the document
        factor = 1 / word if times is None else math.sqrt(times) / _mean(weights)
        rows.append(Row(k + 1, words, weight, weights, times, [factor * one for one in weights]))
    return rows


def _mean(weights: List[float]) -> float:
    """The weight that each would have, if all had the same; 1 where all are zero."""
    return sum(weights) / len(weights) if any(weights) else 1.0


def is_wrong(document: Any) -> bool:
    return document.gold is not None and document.gold != document.label


def draw_documents(documents: Sequence[Any], path: PathLike) -> None:
    """Writes the page; raises ``OptionError`` if it cannot be written."""
    blue = "weight of the word in the document"
    flat = all(document.sentence_weights is None for document in documents)
    if not flat:
        blue = "weight of the word, times the square root of the weight of its sentence"
    text = frame.page(
        "documents.html",
        "Weights of words and sentences",
        style=frame.read_asset("documents.css"),
        script=frame.read_asset("scroll.js", "documents.js"),
        sentence_key="" if flat else "weight of the sentence",
        word_key=blue,
        scale=SCALE,
        steps=STEPS,
        shade=shade,
        wrong=sum(map(is_wrong, documents)),
        documents=documents,
        is_wrong=is_wrong,
        title_of=_title,
        shaded=shaded,
    )
    with whole_text(path, f"--plot {path}: cannot be written") as stream:
        stream.write(text)


def _title(document: Any) -> str:
    known = "" if document.gold is None else f"label: {document.gold}, "
    cut = f", cut after {counted(sum(map(len, document.sentences)), 'word')}" if document.cut else ""
    return f"{document.id}: {known}prediction: {document.label} ({100 * document.probability:.1f} %){cut}"
