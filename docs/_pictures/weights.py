"""Weights of mechanisms, for scores by hand or random encodings."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import numpy as np
import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save
from fairseq_attn_plugin.analysis.drawing.heatmaps import Panel, heatmaps
from fairseq_attn_plugin.attention import NORMALIZERS, Attention, build_attention
from fairseq_attn_plugin.ops.chain_crf import chain_log_marginals

from .common import BLUE, CORNERS, GREEN, GREY, LIGHT, ORANGE, bars, style

SOURCE, TARGET = "der hund sieht der katze nach".split(), "the dog watches the cat".split()
SCORES = torch.tensor(
    [
        [3.2, 0.0, 0.0, 2.6, 0.0, 0.0],
        [0.0, 3.5, 0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 3.0, 0.0, 0.0, 1.5],
        [3.2, 0.0, 0.0, 2.6, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0, 3.5, 0.0],
    ]
)


def density_matrix(path: Path) -> None:
    """Psi of `mqt` for random encodings, and its weights against those of `soft` with the same diagonal."""
    torch.manual_seed(3)
    size, width = 8, 16
    sizes = {"query_dim": width, "memory_dim": width}
    mqt = build_attention("mqt", **sizes, pairs="keys").requires_grad_(False)
    soft = build_attention("soft", **sizes, score="general").requires_grad_(False)
    mqt.score.projection.weight.normal_(0, 0.25)
    soft.score.load_state_dict(mqt.score.state_dict())
    encodings, query = torch.randn(1, size, width), torch.randn(1, 1, width)
    keys = mqt.score.projection(encodings)[0]
    pairs = mqt.pair_weight * torch.tanh(keys[:, None] + keys) @ query[0, 0]
    psi = torch.where(torch.eye(size, dtype=torch.bool), keys @ query[0, 0], pairs)
    weights = mqt.step(query, mqt.precompute(encodings)).weights.flatten()
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


def structured(path: Path) -> None:
    """Weights of softmax and of chains with and without coupling, for the same scores."""
    scores = torch.tensor([-3.0, -2.5, 1.5, -0.5, 1.5, -2.5, -3.0, 1.5, -3.0, -2.5])
    weights = {"softmax": scores.softmax(0)}
    for coupling in (0.0, 2.0):
        transitions = torch.tensor([[coupling, 0.0], [0.0, coupling]])
        marginals = chain_log_marginals(scores, transitions).exp()
        weights[rf"chain, $\kappa$ = {coupling:g}"] = marginals / marginals.sum()
    _scores_and_weights(path, scores, weights, "Weights, divided by their sum")


def _scores_and_weights(path: Path, scores: Tensor, weights: Dict[str, Tensor], title: str) -> None:
    """Bars of scores, and below them those of three kinds of weights."""
    with canvas(path.stem, (6.2, 3.4)) as figure:
        top, bottom = figure.add_axes((0, 0.68, 1, 0.24)), figure.add_axes((0, 0, 1, 0.52))
        style(top, r"Scores $\alpha_j$", grid="y")
        bars(top, {"": scores.tolist()}, (GREY,))
        top.axhline(0, color=GREY, linewidth=0.8)
        style(bottom, title, grid="y")
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
        biases.position.projection.weight.copy_(torch.tensor([[-4.0, 4.0, 0.0], [-4.0, 4.0, 0.0]]))
        biases.position.projection.bias.copy_(torch.tensor([1.0, -1.0]))
        biases.position.vector.copy_(torch.tensor([2.0, -2.0]))
    elif name == "markov":  # one position to the right of the last weights
        biases.markov.projection.weight.copy_(torch.tensor([[3.0, 0.0, 0.0]]))
    elif name == "fertility":  # away from words that have had weight
        biases.fertility.projection.weight.copy_(torch.tensor([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]))
        biases.fertility.projection.bias.zero_()
        biases.fertility.vector.copy_(torch.tensor([-4.0, 0.0]))
    return rows_of(attention, scores)


def rows_of(attention: Attention, scores: Tensor) -> np.ndarray:
    """Weights ``[T, N]`` of a mechanism with dot scores, for given scores."""
    words = {"source_tokens": torch.zeros(1, scores.size(1), dtype=torch.long)} if attention.needs_words else {}
    memory = attention.precompute(torch.eye(scores.size(1))[None], **words)
    state, rows = attention.initial_state(memory), []
    for step, row in enumerate(scores):
        output = attention.step(row[None, None], memory, state, torch.tensor([[step]]))
        state = output.state
        rows.append(output.weights[0, 0].detach().numpy())
    return np.stack(rows)


def biases(path: Path) -> None:
    """Weights of one sentence with no bias and with each bias. Two source words are the same."""
    names = ("", "position", "markov", "fertility")
    heatmaps([Panel(biased_weights(name, SCORES), SOURCE, TARGET, name or "no bias") for name in names], path)


def constrained(path: Path) -> None:
    """Weights of one sentence by sparsemax, and with at most a weight of one for each word over the translation."""
    size = SCORES.size(1) + 1  # the end of the sentence
    scores = torch.nn.functional.pad(SCORES, (0, 1), value=-1.0)
    common = {"query_dim": size, "memory_dim": size, "score": "dot"}
    attentions = {
        "sparsemax": build_attention("soft", normalizer="sparsemax", **common),
        "fertility 1": build_attention("constrained-sparsemax", fertility=1.0, exhaustion=0.0, **common),
    }
    source = [*SOURCE, "</s>"]
    heatmaps([Panel(rows_of(a, scores), source, TARGET, label) for label, a in attentions.items()], path)


def sparse(path: Path) -> None:
    """Weights of softmax, sparsemax and fusedmax for the same scores."""
    scores = torch.tensor([-0.6, -0.2, 0.9, 1.0, 0.85, 0.1, -0.5, 1.15, 0.0, -0.4])
    normalizers = {name: NORMALIZERS.build(name) for name in ("softmax", "sparsemax")}
    normalizers[r"fusedmax, $\lambda$ = 0.2"] = NORMALIZERS.build("fusedmax", fusedmax_strength=0.2)
    weights = {label: normalizer(scores[None, None], None)[0, 0] for label, normalizer in normalizers.items()}
    _scores_and_weights(path, scores, weights, "Weights")


def monotonic(path: Path) -> None:
    """Weights of one sentence: expected in training, and hard in evaluation, of one word and of a chunk."""
    size = SCORES.size(1) + 1  # the end of the sentence
    scores = torch.nn.functional.pad(3 * SCORES - 3, (0, 1), value=-3.0)
    common = {"query_dim": size, "memory_dim": size, "score": "dot", "noise": 0.0, "offset": 0.0}
    one, chunk = (build_attention(name, **common) for name in ("monotonic", "mocha"))
    source = [*SOURCE, "</s>"]
    panels = [Panel(rows_of(one, scores), source, TARGET, "monotonic, in training")]
    panels.append(Panel(rows_of(one.eval(), scores), source, TARGET, "in translation"))
    panels.append(Panel(rows_of(chunk.eval(), scores / 3), source, TARGET, "mocha, chunks of 3"))
    heatmaps(panels, path)


def normalizers(path: Path) -> None:
    """The weight of the first of two positions against the difference of their scores."""
    differences = torch.linspace(-4, 4, 321)
    scores = torch.stack([differences, torch.zeros_like(differences)], dim=-1)[None]
    with canvas("normalizers", (4.6, 2.4)) as figure:
        axes = figure.add_axes((0, 0, 1, 1))
        style(axes, grid="both")
        for name, colour, line in zip(("entmax15", "softmax", "sparsemax"), (ORANGE, BLUE, GREEN), ("-", "--", "-.")):
            axes.plot(differences, NORMALIZERS.build(name)(scores, None)[0, :, 0], line, color=colour, label=name)
        axes.set_xlabel(r"$\alpha_1 - \alpha_2$", fontsize=9)
        axes.set_ylabel(r"$a_1$", fontsize=9)
        axes.legend(frameon=False, fontsize=8.5)
        save(figure, path)
