"""What a report and the commands ``frequency`` and ``compare`` show alike: rare words, and sentences side by side."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Optional, Sequence

from fairseq_attn_plugin.analysis.drawing.bars import grouped_bars
from fairseq_attn_plugin.analysis.outputs.comparison import Comparison, Sentence, Span, score_rows, shown, signatures_of
from fairseq_attn_plugin.analysis.outputs.frequency import (
    CLOSEST,
    LEAST,
    RARE,
    REFERENCE,
    Analysis,
    accuracy_table,
    frequency_table,
)
from fairseq_attn_plugin.analysis.report.document import Document


def add_frequencies(document: Document, analysis: Analysis, folder: Optional[Path]) -> None:
    """Rare and frequent words in the outputs, and their accuracy; with pictures if there is a folder for them."""
    document.heading("Rare and frequent words")
    document.paragraph(
        "Share of all words in each tenth of the training text, from its rarest to its most frequent words, in per "
        "cent; in brackets the deviation from the reference, in per cent of the reference. "
        f"{CLOSEST}: closest to the reference. {LEAST}: least over-representation."
    )
    document.table(*frequency_table(analysis))
    texts = [REFERENCE, *analysis.accuracies]

    def draw_shares(name: str, title: str, places: Sequence[int]) -> None:
        if folder is not None:
            bars = {text: [analysis.shares[text][place] for place in places] for text in texts}
            groups = [analysis.percents.names[place] for place in places]
            labels = ("percentile of training frequency, rare words first", "share of the words, percent")
            draw = partial(grouped_bars, groups, bars, title=title, axes_labels=labels, first_is_reference=True)
            document.picture(folder / f"{name}.png", f"{title}.", draw)

    everything = range(len(analysis.percents.names))
    draw_shares("frequency", "All words", everything)
    draw_shares("rare", "Rare words", [*everything[:RARE], everything[-1]])
    document.subheading("Accuracy of target words")
    document.paragraph(
        "F (precision / recall) in per cent, by the number of times that a word occurs in the training text."
    )
    document.table(*accuracy_table(analysis))
    if folder is not None:
        f1 = {
            name: [None if one.f1 is None else 100 * one.f1 for one in of] for name, of in analysis.accuracies.items()
        }
        labels = ("times in the training text", "F, percent")
        draw = partial(grouped_bars, analysis.counts.names, f1, axes_labels=labels)
        document.picture(folder / "accuracy.png", "F by training count.", draw)


MARKS = "+Words+ are not in the reference; -words- are only in the reference."


def add_sentence(document: Document, sentence: Sentence, comparison: Comparison) -> None:
    """A sentence and its translations, with marks and scores."""

    def marked(span: Span) -> str:
        return {"same": "{}", "other": "+{}+", "missing": "-{}-"}[span.kind].format(" ".join(span.words))

    names = comparison.names
    rows = [["reference", " ".join(word for word, _ in sentence.reference), *[None] * len(names)]]
    if sentence.source is not None:
        rows.insert(0, ["source", sentence.source, *[None] * len(names)])
    for one in sentence.outputs:
        scores = [shown(name, one.scores[name]) for name in names]
        rows.append([one.label, " ".join(map(marked, one.spans)), *scores])
    document.table([f"sentence {sentence.number}", "text", *names.values()], rows)


def add_comparison(document: Document, comparison: Comparison) -> None:
    """The scores of all systems, and the sentences side by side."""
    document.table(["system", *comparison.names.values()], score_rows(comparison))
    for signature in signatures_of(comparison):
        document.paragraph(signature)
    document.paragraph(MARKS)
    for sentence in comparison.sentences:
        add_sentence(document, sentence, comparison)
