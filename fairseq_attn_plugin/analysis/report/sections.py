"""The sections of a report: scores, frequencies, examples, alignments, heatmaps."""

import importlib
import platform
from functools import partial
from pathlib import Path
from typing import Collection, List, Mapping, Optional, Sequence, Set

from fairseq_attn_plugin.analysis.alignment import evaluation
from fairseq_attn_plugin.analysis.alignment.linking import Linking
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment
from fairseq_attn_plugin.analysis.drawing.heatmaps import heatmaps
from fairseq_attn_plugin.analysis.drawing.panels import choose_sentences, panels_of
from fairseq_attn_plugin.analysis.outputs.comparison import MARKS, add_sentence, as_html, compare
from fairseq_attn_plugin.analysis.outputs.significance import Score
from fairseq_attn_plugin.analysis.pages.document import Document, Link
from fairseq_attn_plugin.analysis.report.systems import Group, Reported, spread
from fairseq_attn_plugin.analysis.web import explore
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import whole_text

PICTURES, PICTURE_WORDS = 4, (6, 13)  # heatmaps, and source words of a sentence that makes a readable one
EXAMPLES, COMPARED = 6, 200  # sentences side by side in the report, and on the page of all
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
            systems, _ = evaluation.load_alignments([str(one.forced.path) for one in group.runs], Linking())
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
    gold: Optional[Sequence[GoldAlignment]],
    explored: Collection[int],
) -> None:
    """The first sentences of suitable length, all systems side by side; each leads to the sentence in the explorer."""
    systems = [one.forced for one in reported]
    folder = out / "heatmaps"
    folder.mkdir(exist_ok=True)
    document.subheading("Heatmaps")
    drawn = False
    for chosen in choose_sentences(systems, first=PICTURES, length=PICTURE_WORDS):
        links = gold[chosen.number] if gold is not None else None
        panels = panels_of(systems, chosen, [["attention"]] * len(systems), gold=links, normalize=True)
        document.picture(
            folder / f"{chosen.number:05d}.png",
            f"Sentence {chosen.number} with its reference forced; each row is divided by its sum.",
            partial(heatmaps, panels),
            sentence_link(out, chosen.number) if chosen.number in explored else None,
        )
        drawn = True
    if not drawn:
        document.paragraph(
            f"The systems have no common sentence of {PICTURE_WORDS[0]} to {PICTURE_WORDS[1]} source words."
        )


def write_explorer(reported: Sequence[Reported], out: Path) -> Set[int]:
    """Writes a page that shows the attention of each system, sentence by sentence; returns their numbers."""
    shown = explore.collect([one.forced for one in reported])
    explore.write_page(shown, out / EXPLORER)
    return {sentence["id"] for sentence in shown.data["sentences"]}


def sentence_link(out: Path, number: int) -> Link:
    """A link to a sentence in the explorer."""
    return Link(out / EXPLORER, f"Explore sentence {number}", f"sentence={number}")


def add_systems(
    document: Document,
    groups: Sequence[Group],
    scores: Mapping[str, Mapping[str, Score]],
    signatures: Mapping[str, str],
    baseline: Optional[str],
) -> None:
    """Sizes, perplexities, scores, and tests of their difference to the baseline."""
    document.heading("Systems")
    tested = baseline is not None
    several = any(len(group.runs) > 1 for group in groups)
    headers = ["system", *(["seeds"] if several else []), "architecture", "attention", "parameters", "perplexity"]
    for metric in scores:
        headers += [metric, "\u00b1", "p"] if tested else [metric]
    rows = []
    for group in groups:
        header = group.runs[0].forced.header
        row: List[object] = [group.name, *([len(group.runs)] if several else [])]
        row += [header.architecture, header.options.get("attention")]
        row += [f"{group.runs[0].parameters:,}", spread((one.measured.perplexity for one in group.runs), 2)]
        for of in scores.values():
            score = of[group.name]
            row.append(spread(score.seeds, 2))
            if tested:
                row += [f"{score.interval:.2f}", None if score.p_value is None else f"{score.p_value:.3f}"]
        rows.append(row)
    document.table(headers, rows)
    notes = [
        "Perplexity: per subword of the reference, its end included. The higher BLEU and chrF and the lower TER, the "
        "better."
    ]
    if tested:
        notes.append(
            f"Paired bootstrap: \u00b1 is half of the 95 % interval; p tests the difference to {baseline}. Without a "
            "p: the same translations, or a score of 0.00."
        )
        if several:
            notes.append("Only seeds that both systems have are compared; all of each, if they have none in common.")
    document.paragraph(" ".join(notes))
    for metric, signature in signatures.items():
        document.paragraph(f"{metric}: {signature}")


def add_examples(
    document: Document,
    source: Sequence[str],
    reference: Sequence[str],
    outputs: Mapping[str, Sequence[str]],
    out: Path,
    explored: Collection[int],
    tokenize: str,
) -> None:
    """The sentences whose translations differ most; each leads to the sentence in the explorer. ``tokenize`` is
    sacrebleu's tokenizer, for BLEU and the marks."""
    document.heading("Translations side by side")
    found = compare(outputs, reference, source, "difference", "chrf", first=COMPARED, tokenize=tokenize)
    with whole_text(out / "compare.html", f"--out {out}: compare.html cannot be written") as stream:
        stream.write(as_html(found))
    document.paragraph(f"The sentences whose scores differ most. {MARKS}")
    for sentence in found.sentences[:EXAMPLES]:
        add_sentence(document, sentence)
        if sentence.number in explored:
            document.link(*sentence_link(out, sentence.number))
    document.link(out / "compare.html", f"{counted(len(found.sentences), 'sentence')} side by side")


def add_origin(document: Document, reported: Sequence[Reported], failed: Mapping[str, str], command: str) -> None:
    """Systems that were left out, and how to make the report again."""
    if failed:
        document.heading("Left out")
        document.table(["system", "reason"], list(failed.items()))
    document.heading("How this report was made")
    if command:
        document.code(command)
    rows = [[one.system.name, one.forced.header.checkpoint] for one in reported]
    document.table(["system", "checkpoint"], rows)
    packages = ("fairseq_attn_plugin", "fairseq", "torch")
    versions = {name: importlib.import_module(name).__version__ for name in packages}
    versions["Python"] = platform.python_version()
    document.paragraph(", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
