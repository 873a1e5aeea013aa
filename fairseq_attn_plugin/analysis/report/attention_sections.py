"""Sections of the report on attention: alignments, heatmaps, the lexicon, and the page to explore."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Collection, List, Optional, Sequence, Set

from fairseq_attn_plugin.analysis.alignment import evaluation, lexicon
from fairseq_attn_plugin.analysis.alignment.linking import Linking
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment
from fairseq_attn_plugin.analysis.drawing.colours import Theme
from fairseq_attn_plugin.analysis.drawing.heatmaps import Panel, heatmaps
from fairseq_attn_plugin.analysis.drawing.panels import Length, choose_sentences, panels_of
from fairseq_attn_plugin.analysis.report.document import Document, Link
from fairseq_attn_plugin.analysis.report.seeds import Group, spread
from fairseq_attn_plugin.analysis.report.systems import Reported
from fairseq_attn_plugin.analysis.web import explore
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.escapes import as_typed
from fairseq_attn_plugin.writing import whole_text

__all__ = [
    "add_alignments",
    "add_explorer",
    "add_heatmaps",
    "add_lexicon",
    "sentence_link",
    "write_explorer",
]


PICTURE_WORDS = Length(6, 13)  # source words of a sentence that makes a readable picture
LEXICON_WORDS = 15
EXPLORER = "explore.html"


def add_alignments(
    document: Document, groups: Sequence[Group], gold: Optional[Sequence[GoldAlignment]], path: Optional[str]
) -> None:
    """Entropy, peaks and information of the attention, and its quality as an alignment."""
    document.heading("Attention as an alignment")
    headers = ["system", "entropy, nats", "greatest weight", "weight on the end", "information"]
    rows: List[List[object]] = []
    for group in groups:
        found = [one.measured for one in group.runs]
        columns = [[getattr(one, name) for one in found] for name in ("entropy", "greatest", "end", "information")]
        rows.append([group.name, *(spread(column, 2) for column in columns)])
    notes = (
        "Means over the subwords of the references; weights are divided by their sum. Information: how much a step "
        "tells of the position that it attends to; 0 if all steps attend alike, 1 at most."
    )
    if gold is not None:
        headers += ["AER", "precision", "recall", "F1", "links"]
        for row, group in zip(rows, groups):
            systems, _ = evaluation.load_alignments(
                [str(one.forced.path) for one in group.runs], Linking(end="exclude")
            )
            results = evaluation.evaluate(systems, gold)
            scores = [result.score for result in results]
            row += [spread([getattr(one, name) for one in scores], 3) for name in ("aer", "precision", "recall", "f1")]
            row.append(spread([result.links for result in results], 0))
        notes += f" Each target word is linked to the source word of greatest weight; gold: {Path(path or '').name}."
    document.table(headers, rows)
    document.paragraph(notes)


def add_heatmaps(
    document: Document,
    reported: Sequence[Reported],
    out: Path,
    count: int,
    gold: Optional[Sequence[GoldAlignment]],
    explored: Collection[int],
) -> None:
    """The first sentences of suitable length, all systems side by side; each leads to the sentence in the explorer."""
    if count < 1:
        return
    systems = [one.forced for one in reported]
    folder = out / "heatmaps"
    folder.mkdir(exist_ok=True)
    document.subheading("Heatmaps")
    drawn = False
    for chosen in choose_sentences(systems, first=count, length=PICTURE_WORDS):
        links = gold[chosen.number] if gold is not None else None
        panels = panels_of(systems, chosen, [["attention"]] * len(systems), gold=links, normalize=True)
        document.picture(
            folder / f"{chosen.number:05d}.png",
            f"Sentence {chosen.number} with its reference forced; each row is divided by its sum.",
            partial(_draw_heatmaps, panels),
            sentence_link(out, chosen.number) if chosen.number in explored else None,
        )
        drawn = True
    if not drawn:
        document.paragraph(
            f"The systems have no common sentence of {PICTURE_WORDS.least} to {PICTURE_WORDS.most} source words."
        )


def _draw_heatmaps(panels: Sequence[Panel], path: Path, theme: Theme) -> None:
    heatmaps(panels, path, theme=theme)


def add_lexicon(document: Document, one: Reported, out: Path) -> None:
    """Word translation probabilities of one system, from its attention to the references."""
    found = lexicon.estimate_lexicon(lexicon.count_records(one.forced), min_count=2)
    path = out / "lexicon.tsv"
    with whole_text(path, f"--out {out}: lexicon.tsv cannot be written") as stream:
        lexicon.write_lexicon(stream, found, "probabilities")
    document.heading(f"Lexicon of {one.system.name}")
    frequent = sorted(
        (word for word in found if word != lexicon.END),
        key=lambda word: -sum(entry.times for entry in found[word]),
    )
    rows = [
        [as_typed(word), ", ".join(f"{as_typed(entry.target)} {entry.probability:.2f}" for entry in found[word][:4])]
        for word in frequent[:LEXICON_WORDS]
    ]
    document.paragraph(
        "P(target | source), estimated from the links of this split, for the most frequent source words:"
    )
    document.table(["source", "targets"], rows)
    document.link(path, counted(len(found), "source word"))


def write_explorer(reported: Sequence[Reported], out: Path, count: int) -> Set[int]:
    """Writes a page that shows the attention of each system, sentence by sentence; returns their numbers."""
    shown = explore.collect([one.forced for one in reported], first=count)
    explore.write_page(shown, out / EXPLORER)
    return {sentence["id"] for sentence in shown.data["sentences"]}


def sentence_link(out: Path, number: int) -> Link:
    """A link to a sentence in the explorer."""
    return Link(out / EXPLORER, f"Explore sentence {number}", f"sentence={number}")


def add_explorer(document: Document, out: Path, explored: Collection[int]) -> None:
    """The link to the explorer."""
    document.heading("Sentence by sentence")
    document.link(out / EXPLORER, f"Explore the attention in {counted(len(explored), 'sentence')}")
