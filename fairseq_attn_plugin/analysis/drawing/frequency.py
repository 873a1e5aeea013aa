"""Draws the word frequencies of systems and the reference as bars."""

from __future__ import annotations

from pathlib import Path
from typing import List

from fairseq_attn_plugin.analysis.drawing.bars import grouped_bars
from fairseq_attn_plugin.analysis.drawing.colours import LIGHT, Theme
from fairseq_attn_plugin.analysis.outputs.frequency import REFERENCE, Analysis
from fairseq_attn_plugin.writing import PathLike

__all__ = ["draw_frequency"]


def draw_frequency(analysis: Analysis, folder: PathLike, suffix: str = ".png", theme: Theme = LIGHT) -> List[Path]:
    """Draws the shares of all bins and of the rare bins (Figures 2 and 3 of the paper), and F by training count.

    ``folder`` must exist. Returns the paths of the pictures. Raises ``OptionError`` as
    :func:`~fairseq_attn_plugin.analysis.drawing.bars.grouped_bars` does.
    """
    folder, texts = Path(folder), [REFERENCE, *analysis.accuracies]
    everything = list(range(len(analysis.percents.names)))
    choices = {"frequency": (everything, "All words")}
    if analysis.rare:
        choices["rare"] = ([*analysis.rare, everything[-1]], "Rare words")
    paths = []
    for name, (places, title) in choices.items():
        paths.append(folder / f"{name}{suffix}")
        grouped_bars(
            [analysis.percents.names[place] for place in places],
            {text: [analysis.shares[text][place] for place in places] for text in texts},
            paths[-1],
            title,
            ("percentile of training frequency, rare words first", "share of the words, percent"),
            first_is_reference=True,
            theme=theme,
        )
    paths.append(folder / f"accuracy{suffix}")
    grouped_bars(
        analysis.counts.names,
        {label: [None if one.f1 is None else 100 * one.f1 for one in of] for label, of in analysis.accuracies.items()},
        paths[-1],
        "Accuracy of target words",
        ("times in the training text", "F, percent"),
        theme=theme,
    )
    return paths
