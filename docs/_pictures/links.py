"""Attention that learns the links of the synthetic corpus."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.alignment.evaluation import alignment_error_rate
from fairseq_attn_plugin.analysis.alignment.linking import hard_alignment
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment
from fairseq_attn_plugin.analysis.drawing.canvas import canvas, save
from fairseq_attn_plugin.analysis.drawing.heatmaps import Panel, heatmaps
from fairseq_attn_plugin.attention import build_attention
from fairseq_attn_plugin.criterions.guided_alignment import alignment_terms
from fairseq_attn_plugin.toy_corpus.generation import SentencePair, generate

from .common import BLUE, CORNERS, GREY, ORANGE, style


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
    links, gold = hard_alignment(panel.weights), frozenset(unseen.links)
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
