"""The steps of a translation by an exported folder."""

from __future__ import annotations

from pathlib import Path

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save

from .common import BLUE, GREY

PARTS = {
    "text": "a line of\nstdin",
    "vocabularies\nand codes": "words become\nnumbers",
    "encoder.onnx": "once for\neach sentence",
    "step.onnx": "once for\neach word",
    "translate.py": "beam search,\nwords, alignments",
}


def export(path: Path) -> None:
    """The parts of an exported folder in the order in which a line of text passes them."""
    with canvas("exported", (7.8, 1.3)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-0.5, len(PARTS) - 0.5), ylim=(0, 1))
        axes.axis("off")
        arrow = {"arrowstyle": "-|>", "color": GREY, "linewidth": 1.4}
        for number, (part, role) in enumerate(PARTS.items()):
            frame = {"boxstyle": "round,pad=0.5", "edgecolor": BLUE, "facecolor": "#e7f5ff", "linewidth": 1.2}
            axes.text(number, 0.72, part, ha="center", va="center", fontsize=9.5, weight="bold", bbox=frame)
            axes.text(number, 0.3, role, ha="center", va="top", fontsize=8.5, color="#495057", style="italic")
            if number:
                both = arrow if number < len(PARTS) - 1 else {**arrow, "arrowstyle": "<|-|>"}
                axes.annotate("", (number - 0.36, 0.72), (number - 0.64, 0.72), arrowprops=both)
        save(figure, path)
