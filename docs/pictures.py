"""Draws the pictures of the documentation into docs/images: ``python docs/pictures.py [--out FOLDER]``.

The weights in the pictures are computed by the package, from fixed seeds. The measured values are read from the files
in benchmarks. Each function of ``PICTURES`` draws the file of its name.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor

REPO = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPO))

from fairseq_attn_plugin.analysis.alignment.error_rate import alignment_error_rate  # noqa: E402
from fairseq_attn_plugin.analysis.alignment.linking import hard_alignment  # noqa: E402
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment  # noqa: E402
from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save  # noqa: E402
from fairseq_attn_plugin.analysis.drawing.colours import distinct_colours  # noqa: E402
from fairseq_attn_plugin.analysis.drawing.heatmaps import Panel, heatmaps  # noqa: E402
from fairseq_attn_plugin.attention import build_attention  # noqa: E402
from fairseq_attn_plugin.attention.normalizers import build_normalizer, normalizer_names  # noqa: E402
from fairseq_attn_plugin.criterions.alignment_terms import alignment_terms  # noqa: E402
from fairseq_attn_plugin.ops.chain_crf import chain_log_odds  # noqa: E402
from fairseq_attn_plugin.recipes.translation.run import TranslationRecipe  # noqa: E402
from fairseq_attn_plugin.toy_corpus.generation import SentencePair, generate  # noqa: E402

RESULTS = REPO / "benchmarks" / "results"
GREY, LIGHT = "#868e96", "#ced4da"
BLUE, ORANGE, GREEN, PURPLE = distinct_colours(4)


def style(axes: Any, title: str = "", grid: str = "") -> None:
    """The frame, the grid and the title that all axes have in common."""
    axes.spines[:].set_color(LIGHT)
    axes.tick_params(labelsize=8, length=2.5, color=LIGHT)
    axes.set_axisbelow(True)
    if grid:
        axes.grid(axis=grid, color="#e3e8ee", linewidth=0.6)
    if title:
        axes.set_title(title, loc="left", fontsize=9.5, weight="bold", pad=6)


def bars(axes: Any, series: Dict[str, Sequence[float]], colours: Sequence[str]) -> None:
    """Groups of bars, one bar of each of ``series`` at every position counted from 1."""
    width = 0.8 / len(series)
    for number, (label, values) in enumerate(series.items()):
        places = np.arange(1, len(values) + 1) + (number + 0.5) * width - 0.4
        axes.bar(places, values, width, label=label, color=colours[number])
    axes.set_xticks(range(1, len(values) + 1))


def density_matrix(path: Path) -> None:
    """Psi of `mqt` for random encodings, and its weights against those of `soft` with the same diagonal."""
    torch.manual_seed(3)
    size, width = 8, 16
    mqt = build_attention("mqt", query_dim=width, memory_dim=width, pairing="direct").requires_grad_(False)
    soft = build_attention("soft", query_dim=width, memory_dim=width, score="general").requires_grad_(False)
    mqt.score.projection.weight.normal_(0, 0.25)
    soft.score.load_state_dict(mqt.score.state_dict())
    encodings, query = torch.randn(1, size, width), torch.randn(1, 1, width)
    memory = mqt.precompute(encodings)
    pairs = mqt.pair_weight * memory.pairs[0] @ query[0, 0]
    psi = torch.where(torch.eye(size, dtype=torch.bool), mqt.score(query, memory.diagonal)[0], pairs)
    weights = mqt.step(query, memory).weights.flatten()
    torch.testing.assert_close(weights, psi.mean(0).softmax(0))
    with canvas("density", (7.4, 2.9)) as figure:
        left, right = figure.add_axes((0, 0, 0.36, 0.92)), figure.add_axes((0.57, 0, 0.43, 0.92))
        style(left, r"$\Psi$: scores on the diagonal, pairs off it")
        greatest = float(psi.abs().max())
        edges = (0.5, size + 0.5, size + 0.5, 0.5)
        image = left.imshow(psi, cmap="RdBu_r", vmin=-greatest, vmax=greatest, extent=edges, aspect="auto")
        for place in range(1, size + 1):
            left.plot(*zip(*[(place + x, place + y) for x, y in CORNERS]), color="#212529", linewidth=1.2)
        left.set_xticks(range(1, size + 1))
        left.set_yticks(range(1, size + 1))
        left.set_xlabel("source position k", fontsize=9)
        left.set_ylabel("source position j", fontsize=9)
        bar = figure.colorbar(image, cax=figure.add_axes((0.38, 0, 0.015, 0.92)))
        style(bar.ax)
        style(right, "Weights", grid="y")
        others = soft.step(query, soft.precompute(encodings)).weights.flatten()
        bars(right, {"soft": others.tolist(), "mqt": weights.tolist()}, (LIGHT, BLUE))
        right.set_xlabel("source position k", fontsize=9)
        right.legend(frameon=False, fontsize=8.5)
        save(figure, path)


CORNERS = ((-0.46, -0.46), (0.46, -0.46), (0.46, 0.46), (-0.46, 0.46), (-0.46, -0.46))


def structured(path: Path) -> None:
    """Weights of softmax and of chains with and without coupling, for the same scores."""
    scores = torch.tensor([-3.0, -2.5, 1.5, -0.5, 1.5, -2.5, -3.0, 1.5, -3.0, -2.5])
    weights = {"softmax": scores.softmax(0)}
    for coupling in (0.0, 2.0):
        transitions = torch.tensor([[coupling, 0.0], [0.0, coupling]])
        marginals = chain_log_odds(scores, transitions).sigmoid()
        weights[rf"chain, $\kappa$ = {coupling:g}"] = marginals / marginals.sum()
    with canvas("structured", (6.2, 3.4)) as figure:
        top, bottom = figure.add_axes((0, 0.68, 1, 0.24)), figure.add_axes((0, 0, 1, 0.52))
        style(top, r"Scores $\alpha_j$", grid="y")
        bars(top, {"": scores.tolist()}, (GREY,))
        top.axhline(0, color=GREY, linewidth=0.8)
        style(bottom, "Weights, divided by their sum", grid="y")
        bars(bottom, {label: values.tolist() for label, values in weights.items()}, (LIGHT, GREEN, BLUE))
        bottom.set_xlabel("source position j", fontsize=9)
        bottom.legend(frameon=False, fontsize=8.5, ncols=3, loc="upper right")
        bottom.set_ylim(0, 1.25 * max(float(values.max()) for values in weights.values()))
        save(figure, path)


def biased_weights(name: str, scores: Tensor) -> np.ndarray:
    """Weights ``[T, N]`` of `soft` with a bias whose parameters are set by hand, for given scores before the bias."""
    size = scores.size(1)
    # encodings are unit vectors, so that a query holds the scores
    attention = build_attention("soft", query_dim=size, memory_dim=size, score="dot", bias=name, bias_dim=2)
    biases = attention.requires_grad_(False).biases
    if name == "position":  # a bump where log(1 + j) = log(1 + t)
        biases.position.weight.copy_(torch.tensor([[-4.0, 4.0, 0.0], [-4.0, 4.0, 0.0]]))
        biases.position.bias.copy_(torch.tensor([1.0, -1.0]))
        biases.position_vector.copy_(torch.tensor([2.0, -2.0]))
    elif name == "markov":  # one position to the right of the last weights
        biases.markov.weight.copy_(torch.tensor([[3.0, 0.0, 0.0]]))
    elif name == "fertility":  # away from words that have had weight
        biases.fertility.weight.copy_(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
        biases.fertility.bias.zero_()
        biases.fertility_vector.copy_(torch.tensor([-4.0, 0.0]))
    memory = attention.precompute(torch.eye(size)[None])
    state, rows = attention.initial_state(memory), []
    for step, row in enumerate(scores):
        output = attention.step(row[None, None], memory, state, torch.tensor([[step]]))
        state = output.state
        rows.append(output.weights[0, 0].numpy())
    return np.stack(rows)


def biases(path: Path) -> None:
    """Weights of one sentence with no bias and with each bias. Two source words are the same."""
    source, target = "der hund sieht der katze nach".split(), "the dog watches the cat".split()
    scores = torch.tensor(
        [
            [3.2, 0.0, 0.0, 2.6, 0.0, 0.0],
            [0.0, 3.5, 0.0, 0.0, 1.0, 0.0],
            [0.0, 0.0, 3.0, 0.0, 0.0, 1.5],
            [3.2, 0.0, 0.0, 2.6, 0.0, 0.0],
            [0.0, 1.0, 0.0, 0.0, 3.5, 0.0],
        ]
    )
    names = ("", "position", "markov", "fertility")
    heatmaps([Panel(biased_weights(name, scores), source, target, name or "no bias") for name in names], path)


class Pupil:
    """Attention between words of the synthetic corpus, with fixed random embeddings on both sides."""

    def __init__(self, width: int = 48) -> None:
        torch.manual_seed(1)
        self.width = width
        self.embeddings: Dict[Tuple[str, str], Tensor] = {}
        self.attention = build_attention("soft", query_dim=width, memory_dim=width, score="general")
        torch.nn.init.normal_(self.attention.score.projection.weight, std=0.02)
        self.optimizer = torch.optim.Adam(self.attention.parameters(), lr=3e-3)

    def embed(self, side: str, words: Sequence[str]) -> Tensor:
        return torch.stack([self.embeddings.setdefault((side, w), torch.randn(self.width)) for w in words])[None]

    def weights(self, pair: SentencePair) -> Tensor:
        memory = self.attention.precompute(self.embed("source", pair.source))
        return self.attention.step(self.embed("target", pair.target), memory).weights

    def learn(self, pairs: Sequence[SentencePair]) -> None:
        """One update towards the links of each pair, by the loss of ``guided_alignment``."""
        for pair in pairs:
            weights = self.weights(pair)
            links = torch.zeros_like(weights, dtype=torch.bool)
            for source, target in pair.links:
                links[0, target, source] = True
            self.optimizer.zero_grad()
            alignment_terms(weights, links).losses.sum().backward()
            self.optimizer.step()

    def panel(self, pair: SentencePair, label: str) -> Panel:
        return Panel(self.weights(pair)[0].detach().numpy(), pair.source, pair.target, label, frozenset(pair.links))


def sentences() -> Tuple[List[SentencePair], SentencePair]:
    """Pairs to learn from, and one of other sentences whose words they have."""
    corpus = generate(seed=1, sizes={"train": 2000, "test": 20})
    return corpus["train"], next(pair for pair in corpus["test"] if 7 <= len(pair.source) <= 9)


def supervision(path: Path) -> None:
    """Attention to a new sentence before, in and after training towards gold links."""
    pairs, unseen = sentences()
    pupil = Pupil()
    panels = [pupil.panel(unseen, "before training")]
    for first, last in ((0, 100), (100, 2000)):
        pupil.learn(pairs[first:last])
        panels.append(pupil.panel(unseen, f"after {last} updates"))
    heatmaps(panels, path)


def alignments(path: Path) -> None:
    """The argmax of attention as links between words, right and wrong, with the gold links that it misses."""
    pairs, unseen = sentences()
    pupil = Pupil()
    pupil.learn(pairs[:800])
    panel = pupil.panel(unseen, "")
    links, gold = hard_alignment(panel.weights), set(unseen.links)
    rate = alignment_error_rate([links], [GoldAlignment(gold, gold)])
    with canvas("alignments", (6.4, 2.9)) as figure:
        left, right = figure.add_axes((0, 0, 0.45, 0.9)), figure.add_axes((0.7, 0, 0.3, 0.9))
        style(left)
        left.imshow(panel.weights, cmap="Blues", vmin=0, vmax=1, aspect="auto")
        left.set_xticks(range(len(panel.source)), panel.source, rotation=90, fontsize=9)
        left.set_yticks(range(len(panel.target)), panel.target, fontsize=9)
        left.tick_params(length=0, labeltop=True, labelbottom=False)
        for source, target in links:
            left.plot(*zip(*[(source + x, target + y) for x, y in CORNERS]), color=ORANGE, linewidth=1.4)
        right.axis("off")
        right.set(xlim=(0, 1), ylim=(max(len(panel.source), len(panel.target)) - 0.5, -0.5))
        for words, place, side in ((panel.source, -0.03, "right"), (panel.target, 1.03, "left")):
            for number, word in enumerate(words):
                right.text(place, number, word, ha=side, va="center", fontsize=9)
        kinds = (("right", links & gold, BLUE, "-"), ("wrong", links - gold, ORANGE, "-"))
        for label, some, colour, line in (*kinds, ("missed", gold - links, GREY, ":")):
            for number, (source, target) in enumerate(sorted(some)):
                right.plot((0, 1), (source, target), line, color=colour, label=None if number else label)
        right.legend(frameon=False, fontsize=8.5, ncols=3, loc="upper center", bbox_to_anchor=(0.5, 0))
        right.set_title(f"alignment error rate {rate.aer:.2f}", fontsize=9.5, weight="bold", pad=10)
        save(figure, path)


def speed(path: Path) -> None:
    """Ratios of training and decoding against stock `lstm`, with the lowest and highest round."""
    measured = json.loads((REPO / "benchmarks" / "cpu-speed.json").read_text(encoding="utf-8"))["sections"]
    names = [name for name in measured["train"]["25"]["systems"] if name != "lstm"]
    with canvas("speed", (5.4, 2.5)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="x")
        for number, (section, label) in enumerate((("train", "training step"), ("decode", "beam-10 decoding"))):
            times = [measured[section]["25"]["systems"][name]["time_ratio"]["lstm"] for name in names]
            # a time ratio is the system's time over the baseline's; the page gives the opposite
            ratios, low, high = (np.array([1 / time[key] for time in times]) for key in ("median", "max", "min"))
            places = np.arange(len(names)) + 0.38 * number - 0.19
            error = (ratios - low, high - ratios)
            axes.barh(places, ratios, 0.36, label=label, color=(BLUE, GREEN)[number])
            axes.errorbar(ratios, places, xerr=error, fmt="none", ecolor="#495057", elinewidth=1, capsize=2)
        axes.axvline(1, color="#495057", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(names)), [name.replace(":input_feeding=", ", input feeding ") for name in names])
        axes.invert_yaxis()
        axes.set_xlabel("times as fast as stock lstm", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.01, 1))
        save(figure, path)


MECHANISMS = (
    *("soft", "structured", "sigmoid", "local-p"),
    *("soft-position", "soft-markov", "soft-fertility", "soft-all", "guided", "agreement"),
)


def mechanisms(path: Path) -> None:
    """Perplexity, BLEU and alignment error rate of every system of the table."""
    columns: Dict[str, List[float]] = {"perplexity": [], "BLEU": [], "AER": []}
    for name in MECHANISMS:
        file = RESULTS / "multi30k-de-en-attention" / f"{name}.seed1.json"
        found = json.loads(file.read_text(encoding="utf-8"))
        validation = found["validation"]
        columns["perplexity"].append(float(validation.get("valid_forward_ppl", validation["valid_ppl"])))
        columns["BLEU"].append(found["bleu"]["score"])
        columns["AER"].append(float(re.findall(r"AER +([\d.]+)", "".join(found["synthetic"]))[0]))
    labels = ("perplexity (low is good)", "BLEU (high is good)", "AER (low is good)")
    with canvas("mechanisms", (7.2, 2.6)) as figure:
        for number, (values, label) in enumerate(zip(columns.values(), labels)):
            axes = figure.add_axes((number * 0.345, 0, 0.31, 0.92))
            style(axes, label, grid="x")
            axes.axvline(values[0], color=GREY, linewidth=1, linestyle="--")
            colours = [BLUE if name == "soft" else GREEN if name[:5] == "soft-" else ORANGE for name in MECHANISMS]
            axes.hlines(range(len(values)), values[0], values, color=colours, linewidth=1.6)
            axes.scatter(values, range(len(values)), color=colours, s=28, zorder=3)
            axes.set_yticks(range(len(values)), [name.replace("soft-", "soft + ") for name in MECHANISMS])
            axes.tick_params(labelleft=number == 0)
            axes.invert_yaxis()
        save(figure, path)


def multi30k(path: Path) -> None:
    """Validation perplexity by epoch of all runs."""
    files = sorted((RESULTS / "multi30k-de-en").glob("*.json"))
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    names = sorted({run["arch"] for run in runs})
    with canvas("multi30k", (5.2, 2.7)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="y")
        for run in runs:
            colour = distinct_colours(len(names))[names.index(run["arch"])]
            line = "-" if run["seed"] == 1 else "--"
            epochs = [(item["epoch"], float(item["valid_ppl"])) for item in run["epochs"]]
            label = f"{run['arch']}, seed {run['seed']}"
            axes.plot(*zip(*epochs), line, marker="o", markersize=3, color=colour, label=label, linewidth=1.5)
        axes.set_yscale("log")
        axes.set_yticks([7, 10, 20, 50], ["7", "10", "20", "50"])
        axes.set_yticks([], minor=True)
        axes.set_xlabel("epoch", fontsize=9)
        axes.set_ylabel("validation perplexity", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5, loc="upper left", bbox_to_anchor=(1.01, 1))
        save(figure, path)


STAGES = {
    "prepare": ("tokenise, BPE,\nfairseq-preprocess", "data/text/*\ndata/codes\ndata/bin/*"),
    "train": ("fairseq-train", "checkpoint_best.pt\ncheckpoint_last.pt\ntrain.log"),
    "generate": ("fairseq-generate", "generate-test.txt\ntest.hyp\ntest.detok.hyp"),
    "score": ("sacrebleu", "test.tokenized.json\ntest.detokenized.json"),
}


def recipe_stages(path: Path) -> None:
    """The stages of a translation recipe, their commands and the files that they write."""
    with canvas("stages", (7.8, 2.3)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-0.5, len(TranslationRecipe.stages) - 0.5), ylim=(0, 1))
        axes.axis("off")
        frame = {"boxstyle": "round,pad=0.5", "edgecolor": BLUE, "facecolor": "#e7f5ff", "linewidth": 1.2}
        arrow = {"arrowstyle": "-|>", "color": GREY, "linewidth": 1.4}
        for number, stage in enumerate(TranslationRecipe.stages):
            command, written = STAGES[stage]
            axes.text(number, 0.86, stage, ha="center", va="center", fontsize=11, weight="bold", bbox=frame)
            axes.text(number, 0.6, command, ha="center", va="center", fontsize=8.5, color="#495057", style="italic")
            axes.annotate("", (number, 0.36), (number, 0.48), arrowprops=arrow)
            axes.text(number, 0.34, written, ha="center", va="top", fontsize=8.5, family="monospace", linespacing=1.4)
            if number:
                axes.annotate("", (number - 0.3, 0.86), (number - 0.7, 0.86), arrowprops=arrow)
        save(figure, path)


def normalizers(path: Path) -> None:
    """The weight of the first of two positions against the difference of their scores."""
    differences = torch.linspace(-4, 4, 321)
    scores = torch.stack([differences, torch.zeros_like(differences)], dim=-1)[None]
    with canvas("normalizers", (4.6, 2.4)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="both")
        for name, colour in zip(normalizer_names(), (ORANGE, BLUE, GREEN)):
            axes.plot(differences, build_normalizer(name)(scores, None)[0, :, 0], color=colour, label=name)
        axes.set_xlabel(r"$\alpha_1 - \alpha_2$", fontsize=9)
        axes.set_ylabel(r"$a_1$", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5)
        save(figure, path)


PICTURES = {
    function.__name__.replace("_", "-") + ".png": function
    for function in (
        *(density_matrix, structured, biases, supervision, alignments),
        *(speed, mechanisms, multi30k, recipe_stages, normalizers),
    )
}


def shrink(path: Path) -> None:
    """Writes a PNG again with 256 colours, which takes a third of the space."""
    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256)
    small.save(path, optimize=True)


def main(arguments: Optional[Sequence[str]] = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--out", type=Path, default=REPO / "docs" / "images", metavar="FOLDER")
    folder = parser.parse_args(arguments).out
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PICTURES.items():
        draw(folder / name)
        shrink(folder / name)


if __name__ == "__main__":
    main()
