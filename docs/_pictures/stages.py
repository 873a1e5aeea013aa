"""The steps of a recipe, and of a translation by an exported folder."""

from __future__ import annotations

from pathlib import Path

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save

from .common import BLUE, GREY

STAGES = {
    "prepare": ("fairseq-attn prepare,\nfairseq-preprocess", "data/text/*\ndata/codes\ndata/bin/*"),
    "train": ("fairseq-train", "checkpoint_best.pt\ncheckpoint_last.pt\ntrain.log"),
    "generate": ("fairseq-generate", "generate.txt\ntest.hyp\ntest.detok.hyp"),
    "score": ("sacrebleu", "test.tokenized.json\ntest.detokenized.json"),
}

PARTS = {
    "text": "a line of\nstdin",
    "vocabularies\nand codes": "words become\nnumbers",
    "encoder.onnx": "once for\neach sentence",
    "step.onnx": "once for\neach word",
    "translate.py": "beam search,\nwords, alignments",
}


def recipe_stages(path: Path) -> None:
    """The steps of a recipe of translation, their commands and the files that they write."""
    with canvas("stages", (7.8, 2.3)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-0.5, len(STAGES) - 0.5), ylim=(0, 1))
        axes.axis("off")
        frame = {"boxstyle": "round,pad=0.5", "edgecolor": BLUE, "facecolor": "#e7f5ff", "linewidth": 1.2}
        arrow = {"arrowstyle": "-|>", "color": GREY, "linewidth": 1.4}
        for number, (stage, (command, written)) in enumerate(STAGES.items()):
            axes.text(number, 0.86, stage, ha="center", va="center", fontsize=11, weight="bold", bbox=frame)
            axes.text(number, 0.6, command, ha="center", va="center", fontsize=8.5, color="#495057", style="italic")
            axes.annotate("", (number, 0.36), (number, 0.48), arrowprops=arrow)
            axes.text(number, 0.34, written, ha="center", va="top", fontsize=8.5, family="monospace", linespacing=1.4)
            if number:
                axes.annotate("", (number - 0.3, 0.86), (number - 0.7, 0.86), arrowprops=arrow)
        save(figure, path)


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
