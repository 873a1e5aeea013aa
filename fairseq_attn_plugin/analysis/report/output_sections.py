"""Sections of the report on outputs: scores, frequencies, examples, and the origin of the report."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Collection, List, Mapping, Sequence

from fairseq_attn_plugin.analysis.drawing.frequency import frequency_drawings
from fairseq_attn_plugin.analysis.outputs import frequency_tables
from fairseq_attn_plugin.analysis.outputs.comparison import Span, compare
from fairseq_attn_plugin.analysis.outputs.comparison_pages import as_html
from fairseq_attn_plugin.analysis.outputs.frequency import Analysis
from fairseq_attn_plugin.analysis.report.attention_sections import sentence_link
from fairseq_attn_plugin.analysis.report.corpus import Corpus
from fairseq_attn_plugin.analysis.report.document import Document
from fairseq_attn_plugin.analysis.report.systems import Reported
from fairseq_attn_plugin.analysis.report.versions import versions_of
from fairseq_attn_plugin.writing import whole_text

__all__ = ["add_examples", "add_frequencies", "add_origin", "add_systems"]


def add_systems(document: Document, reported: Sequence[Reported], analysis: Analysis) -> None:
    """Sizes, perplexities, scores, and tests of their difference to the baseline."""
    document.heading("Systems")
    tested = any(score.p_value is not None for scores in analysis.scores.values() for score in scores.values())
    headers = ["system", "architecture", "attention", "parameters", "perplexity"]
    for metric in analysis.scores:
        headers += [metric, "\u00b1", "p"] if tested else [metric]
    rows = []
    for one in reported:
        header = one.forced.header
        row: List[object] = [one.system.name, header.architecture, header.options.get("attention")]
        row += [f"{one.parameters:,}", one.measured.perplexity]
        for scores in analysis.scores.values():
            score = scores[one.system.name]
            row.append(score.value)
            if tested:
                row += [score.interval, None if score.p_value is None else f"{score.p_value:.3f}"]
        rows.append(row)
    document.table(headers, rows)
    notes = ["Perplexity: per subword of the reference, its end included."]
    if tested:
        notes.append(
            "Paired bootstrap: \u00b1 is half of the 95 % interval; p tests the difference to the system without a p."
        )
    document.paragraph(" ".join(notes))
    for metric, signature in analysis.signatures.items():
        document.paragraph(f"{metric}: {signature}")


def add_frequencies(document: Document, analysis: Analysis, out: Path) -> None:
    """Rare and frequent words in the outputs, and their accuracy."""
    document.heading("Rare and frequent words")
    document.paragraph(
        "Share of all words in each tenth of the training text, from its rarest to its most frequent words, in per "
        "cent; in brackets the deviation from the reference, in per cent of the reference."
    )
    document.table(*frequency_tables.frequency_table(analysis))
    folder = out / "frequency"
    folder.mkdir(exist_ok=True)
    drawings = frequency_drawings(analysis)
    accuracy = drawings.pop("accuracy")
    for name, draw in drawings.items():
        document.picture(folder / f"{name}.png", "Rare words." if name == "rare" else "All words.", draw)
    document.subheading("Accuracy of target words")
    document.paragraph(
        "F (precision / recall) in per cent, by the number of times that a word occurs in the training text."
    )
    document.table(*frequency_tables.accuracy_table(analysis))
    document.picture(folder / "accuracy.png", "F by training count.", accuracy)


def add_examples(
    document: Document,
    corpus: Corpus,
    outputs: Mapping[str, Sequence[str]],
    out: Path,
    count: int,
    explored: Collection[int],
) -> None:
    """The sentences whose translations differ most; each leads to the sentence in the explorer."""
    if count < 1:
        return
    document.heading("Translations side by side")
    found = compare(outputs, corpus.reference, corpus.source, "difference", "chrf", first=max(count, 200))
    with whole_text(out / "compare.html", f"--out {out}: compare.html cannot be written") as stream:
        stream.write(as_html(found))
    document.paragraph(
        "The sentences whose scores differ most. *Words* are not in the reference; [words] are only in the reference."
    )
    for sentence in found.sentences[:count]:
        rows: List[Sequence[object]] = [
            ["source", sentence.source, None, None],
            ["reference", " ".join(word for word, _ in sentence.reference), None, None],
        ]
        for one in sentence.outputs:
            rows.append([one.label, " ".join(map(_marked, one.spans)), one.scores["bleu"], one.scores["chrf"]])
        document.table([f"sentence {sentence.number}", "text", "BLEU", "chrF"], rows)
        if sentence.number in explored:
            document.link(*sentence_link(out, sentence.number))
    document.link(out / "compare.html", f"{len(found.sentences)} sentences side by side")


def _marked(span: Span) -> str:
    words = " ".join(span.words)
    return {"same": "{}", "other": "*{}*", "missing": "[{}]"}[span.kind].format(words)


def add_origin(document: Document, reported: Sequence[Reported], failed: Mapping[str, str], command: str) -> None:
    """Systems that were left out, and how to make the report again."""
    if failed:
        document.heading("Left out")
        document.table(["system", "reason"], list(failed.items()))
    document.heading("How this report was made")
    if command:
        document.code(command)
    rows = [[one.system.name, one.forced.header.checkpoint] for one in reported]
    document.table(["system", "checkpoint"], rows)
    versions = {**versions_of("fairseq_attn_plugin", "fairseq", "torch"), "Python": platform.python_version()}
    document.paragraph(", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
