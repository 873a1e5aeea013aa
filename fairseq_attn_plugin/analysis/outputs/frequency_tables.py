"""The tables of a frequency analysis: scores, shares by training frequency, accuracy by training count."""

from __future__ import annotations

from typing import List, Mapping, Optional, Tuple

from fairseq_attn_plugin.analysis.outputs.frequency import REFERENCE, TRAINING, Analysis
from fairseq_attn_plugin.analysis.outputs.tables import markdown_table
from fairseq_attn_plugin.analysis.outputs.word_frequency import Accuracy, deviation

__all__ = ["accuracy_table", "frequency_table", "score_table", "tables"]


Table = Tuple[List[str], List[List[str]]]  # headers and rows


def tables(analysis: Analysis) -> str:
    """All tables, as Markdown."""
    parts = [
        "## Scores",
        _markdown(score_table(analysis)),
        "\n".join(f"{metric}: `{signature}`" for metric, signature in analysis.signatures.items()),
        "## Share of the words by training frequency, in percent, and deviation from the reference",
        "Bold: closest to the reference. Italic: least over-representation.",
        _markdown(frequency_table(analysis, best="**{}**", least="*{}*")),
        "## Accuracy of target words by training count",
        "F (precision / recall), in percent",
        _markdown(accuracy_table(analysis)),
    ]
    return "\n\n".join(parts) + "\n"


def score_table(analysis: Analysis) -> Table:
    """Scores of the systems, with intervals and p-values if the analysis has a baseline."""
    systems = list(analysis.accuracies)
    tested = analysis.baseline is not None
    header = ["system"]
    for metric in analysis.scores:
        header += [metric, "95 % interval", "p"] if tested else [metric]
    rows = []
    for label in systems:
        row = [label]
        for scores in analysis.scores.values():
            score = scores[label]
            row.append(f"{score.value:.2f}")
            if tested and score.mean is not None and score.interval is not None:
                row.append(f"{score.mean:.2f} +- {score.interval:.2f}")
                untested = "baseline" if label == analysis.baseline else "-"
                row.append(untested if score.p_value is None else f"{score.p_value:.4f}")
        rows.append([*row, *(f"{number:,}" for number in analysis.words[label])])
    rows.append([REFERENCE, *[""] * (len(header) - 1), *(f"{number:,}" for number in analysis.words[REFERENCE])])
    return [*header, "words", "different words"], rows


def frequency_table(analysis: Analysis, best: str = "{}", least: str = "{}") -> Table:
    """Shares by training frequency with their deviations from the reference.

    Args:
        analysis: the numbers
        best: marks the deviation of a row that is closest to zero
        least: marks the least over-representation, the smallest deviation of a row that is not negative: the second
            criterion of Charalampous and Chatzis's Table 4, who favour it to any under-representation
    """
    systems = list(analysis.accuracies)

    def row(name: str, types: str, of: Mapping[str, float]) -> List[str]:
        deviations = [deviation(of[label], of[REFERENCE]) for label in systems]
        known = [value for value in deviations if value is not None]
        closest = min(map(abs, known), default=None)
        lowest = min((value for value in known if value >= 0), default=None)
        cells = [name, types, f"{of[TRAINING]:.2f}", f"{of[REFERENCE]:.2f}"]
        for label, value in zip(systems, deviations):
            shown = "" if value is None else f" ({value:+.1f})"
            cell = f"{of[label]:.2f}{shown}"
            if value is not None and len(systems) > 1:
                cell = least.format(cell) if value == lowest else cell
                cell = best.format(cell) if abs(value) == closest else cell
            cells.append(cell)
        return cells

    rows = [
        row(name, f"{analysis.types[place]:,}", {text: of[place] for text, of in analysis.shares.items()})
        for place, name in enumerate(analysis.percents.names)
    ]
    if analysis.rare:
        name = f"rare: mean of {len(analysis.rare)}" if len(analysis.rare) > 1 else "rare"
        rows.append(row(name, "", {text: analysis.rare_share(text) for text in analysis.shares}))
    return ["bin", "different words", TRAINING, REFERENCE, *systems], rows


def accuracy_table(analysis: Analysis) -> Table:
    """F, precision and recall by training count."""
    systems = list(analysis.accuracies)

    def cell(one: Accuracy) -> str:
        if one.f1 is None:
            return "-"
        return f"{100 * one.f1:.1f} ({_percent(one.precision)} / {_percent(one.recall)})"

    rows = []
    for place, name in enumerate(analysis.counts.names):
        of = [analysis.accuracies[label][place] for label in systems]
        rows.append([name, f"{of[0].reference:,}", *map(cell, of)])
    return ["training count", "in the reference", *systems], rows


def _percent(share: Optional[float]) -> str:
    return "-" if share is None else f"{100 * share:.1f}"


def _markdown(table: Table) -> str:
    headers, *rows = [[cell.replace("|", r"\|") for cell in row] for row in [table[0], *table[1]]]
    return markdown_table(headers, rows, "l" + "r" * (len(headers) - 1))
