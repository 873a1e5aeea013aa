"""Draws the word frequencies of systems and the reference as bars."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Callable, Dict, List

from fairseq_attn_plugin.analysis.drawing.bars import grouped_bars
from fairseq_attn_plugin.analysis.drawing.colours import LIGHT, Theme
from fairseq_attn_plugin.analysis.outputs.frequency import REFERENCE, Analysis
from fairseq_attn_plugin.writing import PathLike

__all__ = ["draw_frequency", "frequency_drawings"]


def frequency_drawings(analysis: Analysis) -> Dict[str, Callable[[Path, Theme], None]]:
    """What draws the shares of all bins and of the rare bins (Figures 2 and 3 of the paper), and F by training count.

    The names are ``frequency``, ``rare`` (if there are rare bins) and ``accuracy``.
    """
    texts = [REFERENCE, *analysis.accuracies]

    def shares(places: List[int], title: str, path: Path, theme: Theme) -> None:
        grouped_bars(
            [analysis.percents.names[place] for place in places],
            {text: [analysis.shares[text][place] for place in places] for text in texts},
            path,
            title,
            ("percentile of training frequency, rare words first", "share of the words, percent"),
            first_is_reference=True,
            theme=theme,
        )

    def accuracy(path: Path, theme: Theme) -> None:
        grouped_bars(
            analysis.counts.names,
            {
                name: [None if one.f1 is None else 100 * one.f1 for one in of]
                for name, of in analysis.accuracies.items()
            },
            path,
            "Accuracy of target words",
            ("times in the training text", "F, percent"),
            theme=theme,
        )

    everything = list(range(len(analysis.percents.names)))
    drawings: Dict[str, Callable[[Path, Theme], None]] = {"frequency": partial(shares, everything, "All words")}
    if analysis.rare:
        drawings["rare"] = partial(shares, [*analysis.rare, everything[-1]], "Rare words")
    return {**drawings, "accuracy": accuracy}


def draw_frequency(analysis: Analysis, folder: PathLike, suffix: str = ".png") -> List[Path]:
    """Draws :func:`frequency_drawings` into a folder, which must exist, and returns the paths of the pictures.

    Raises ``OptionError`` as :func:`~fairseq_attn_plugin.analysis.drawing.bars.grouped_bars` does.
    """
    paths = []
    for name, draw in frequency_drawings(analysis).items():
        paths.append(Path(folder) / f"{name}{suffix}")
        draw(paths[-1], LIGHT)
    return paths
