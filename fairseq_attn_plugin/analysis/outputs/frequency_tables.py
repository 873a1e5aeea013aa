"""Tables of :mod:`.frequency`."""

from __future__ import annotations

from typing import List, Mapping, Optional, Sequence, Tuple

from fairseq_attn_plugin.analysis.outputs.frequency import REFERENCE, TRAINING, Analysis
from fairseq_attn_plugin.analysis.outputs.word_frequency import (
    Accuracy,
    deviation,
)

__all__ = ["accuracy_table", "frequency_table", "score_table", "tables"]


def tables(analysis: Analysis) -> str:
    """All tables, as Markdown."""
    parts = ["## Scores", "", _table(*score_table(analysis)), ""]
    parts += [f"{metric}: `{signature}`" for metric, signature in analysis.signatures.items()]
    parts += ["", "## Share of the words by training frequency, in percent, and deviation from the reference", ""]
    parts += [
        _table(*frequency_table(analysis, best="**{}**")),
        "",
        "## Accuracy of target words by training count",
        "",
    ]
    parts += ["F (precision / recall), in percent", "", _table(*accuracy_table(analysis))]
    return "\n".join(parts) + "\n"


Table = Tuple[List[str], List[List[str]]]  # headers and rows


def score_table(analysis: Analysis) -> Table:
    """Scores of the systems, with intervals and p-values where there was a baseline."""
    systems = list(analysis.accuracies)
    tested = any(score.p_value is not None for scores in analysis.scores.values() for score in scores.values())
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
                row.append("baseline" if score.p_value is None else f"{score.p_value:.4f}")
        rows.append([*row, *(f"{number:,}" for number in analysis.words[label])])
    rows.append([REFERENCE, *[""] * (len(header) - 1), *(f"{number:,}" for number in analysis.words[REFERENCE])])
    return [*header, "words", "different words"], rows


def frequency_table(analysis: Analysis, best: str = "{}") -> Table:
    """Shares by training frequency, and their deviations from the reference; ``best`` marks the least of a row."""
    systems = list(analysis.accuracies)

    def row(name: str, types: str, of: Mapping[str, float]) -> List[str]:
        deviations = [deviation(of[label], of[REFERENCE]) for label in systems]
        least = min((abs(value) for value in deviations if value is not None), default=0.0)
        cells = [name, types, f"{of[TRAINING]:.2f}", f"{of[REFERENCE]:.2f}"]
        for label, value in zip(systems, deviations):
            shown = "" if value is None else f" ({value:+.1f})"
            closest = value is not None and abs(value) == least and len(systems) > 1
            cells.append((best if closest else "{}").format(f"{of[label]:.2f}{shown}"))
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


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up in a terminal."""
    cells = [[cell.replace("|", r"\|") for cell in row] for row in [header, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        "| " + " | ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths))) + " |"
        for row in cells
    ]
    rule = "| " + " | ".join("-" * (w - 1) + ":" if i else "-" * w for i, w in enumerate(widths)) + " |"
    return "\n".join([lines[0], rule, *lines[1:]])
