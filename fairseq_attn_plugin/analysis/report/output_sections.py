"""Sections of the report on outputs: scores, frequencies, examples, and the origin of the report."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Collection, List, Mapping, Optional, Sequence

from fairseq_attn_plugin.analysis.drawing.frequency import frequency_drawings
from fairseq_attn_plugin.analysis.outputs import frequency_tables
from fairseq_attn_plugin.analysis.outputs.comparison import Span, compare
from fairseq_attn_plugin.analysis.outputs.comparison_pages import as_html
from fairseq_attn_plugin.analysis.outputs.frequency import Analysis
from fairseq_attn_plugin.analysis.outputs.significance import Score
from fairseq_attn_plugin.analysis.report.attention_sections import sentence_link
from fairseq_attn_plugin.analysis.report.corpus import Corpus
from fairseq_attn_plugin.analysis.report.document import Document
from fairseq_attn_plugin.analysis.report.seeds import Group, spread
from fairseq_attn_plugin.analysis.report.systems import Reported
from fairseq_attn_plugin.analysis.report.versions import versions_of
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import whole_text

__all__ = ["add_examples", "add_frequencies", "add_origin", "add_systems"]


def add_systems(
    document: Document,
    groups: Sequence[Group],
    scores: Mapping[str, Mapping[str, Score]],
    signatures: Mapping[str, str],
    baseline: Optional[str],
) -> None:
    """Sizes, perplexities, scores, and tests of their difference to the baseline."""
    document.heading("Systems")
    tested = baseline is not None
    several = any(len(group.runs) > 1 for group in groups)
    headers = ["system", *(["seeds"] if several else []), "architecture", "attention", "parameters", "perplexity"]
    for metric in scores:
        headers += [metric, "\u00b1", "p"] if tested else [metric]
    rows = []
    for group in groups:
        header = group.runs[0].forced.header
        row: List[object] = [group.name, *([len(group.runs)] if several else [])]
        row += [header.architecture, header.options.get("attention")]
        row += [f"{group.runs[0].parameters:,}", spread((one.measured.perplexity for one in group.runs), 2)]
        for metric, of in scores.items():
            score = of[group.name]
            digits = 2 if metric in signatures else 4  # scores of other programs are often between 0 and 1
            row.append(spread(score.seeds, digits))
            if tested:
                row += [f"{score.interval:.{digits}f}", None if score.p_value is None else f"{score.p_value:.3f}"]
        rows.append(row)
    document.table(headers, rows)
    notes = [
        "Perplexity: per subword of the reference, its end included. The higher BLEU and chrF and the lower TER, the "
        "better."
    ]
    if tested:
        notes.append(
            f"Paired bootstrap: \u00b1 is half of the 95 % interval; p tests the difference to {baseline}. Without a "
            "p: the same translations, or a score of 0.00."
        )
        if several:
            notes.append("Only seeds that both systems have are compared; all of each, if they have none in common.")
    document.paragraph(" ".join(notes))
    for metric, signature in signatures.items():
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
            ["source", sentence.source, None, None, None],
            ["reference", " ".join(word for word, _ in sentence.reference), None, None, None],
        ]
        for one in sentence.outputs:
            rows.append([one.label, " ".join(map(_marked, one.spans)), *one.scores.values()])
        document.table([f"sentence {sentence.number}", "text", *found.names.values()], rows)
        if sentence.number in explored:
            document.link(*sentence_link(out, sentence.number))
    document.link(out / "compare.html", f"{counted(len(found.sentences), 'sentence')} side by side")


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
