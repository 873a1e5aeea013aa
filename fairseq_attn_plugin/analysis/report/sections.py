"""The sections of the report: what is put into the document about systems that are read, one function each."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Set

from fairseq_attn_plugin.analysis.alignment import evaluation as aer
from fairseq_attn_plugin.analysis.alignment import lexicon
from fairseq_attn_plugin.analysis.alignment.linking import Linking
from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment
from fairseq_attn_plugin.analysis.drawing import curves
from fairseq_attn_plugin.analysis.drawing import frequency as frequency_drawing
from fairseq_attn_plugin.analysis.drawing import heatmaps as plot
from fairseq_attn_plugin.analysis.drawing import panels as heatmaps
from fairseq_attn_plugin.analysis.outputs import comparison as compare
from fairseq_attn_plugin.analysis.outputs import comparison_pages as compare_comparison_pages
from fairseq_attn_plugin.analysis.outputs import frequency
from fairseq_attn_plugin.analysis.outputs import frequency_tables as frequency_frequency_tables
from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.analysis.report.document import Document
from fairseq_attn_plugin.analysis.training_logs import read_run
from fairseq_attn_plugin.analysis.web import explore
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_text

PICTURE_WORDS = heatmaps.Length(6, 13)  # source words of a sentence that makes a good picture
LEXICON_WORDS = 15


class System(NamedTuple):
    """What lies in the folder of a training."""

    name: str
    checkpoint: Path
    log: Optional[Path]


class Measures(NamedTuple):
    """What forced references say of a model."""

    perplexity: float  # per subword of the reference, its end included
    entropy: float  # of the attention, in nats, mean over target subwords
    greatest: float  # weight, mean over target subwords
    end: float  # weight on the end of the source, mean over target subwords


class Reported(NamedTuple):
    """A system with all that was extracted and counted."""

    system: System
    parameters: int
    forced: Records
    beam: Records
    measured: Measures


class Corpus(NamedTuple):
    """What the systems are compared on."""

    source: List[str]  # words, a line each
    reference: List[str]
    training: Optional[Mapping[str, int]]  # counts of the words of the training text's target side


def add_systems(document: Document, reported: Sequence[Reported], analysis: frequency.Analysis) -> None:
    """Sizes, perplexities, scores, and whether these differ from the baseline's."""
    document.heading("Systems")
    tested = any(score.p_value is not None for scores in analysis.scores.values() for score in scores.values())
    headers = ["system", "architecture", "attention", "parameters", "perplexity"]
    for metric in analysis.scores:
        headers += [metric, "\u00b1", "p"] if tested else [metric]
    rows = []
    for one in reported:
        header = one.forced.header
        row: List[object] = [one.system.name, header.architecture, header.options.get("attention")]
        row += [f"{one.parameters:,}", one.measured.perplexity]
        for scores in analysis.scores.values():
            score = scores[one.system.name]
            row.append(score.value)
            if tested:
                row += [score.interval, None if score.p_value is None else f"{score.p_value:.3f}"]
        rows.append(row)
    document.table(headers, rows)
    notes = ["Perplexity: per subword of the reference, its end included."]
    if tested:
        notes.append(
            "Paired bootstrap: \u00b1 is half of the 95 % interval, p is of the difference to the system without one."
        )
    document.paragraph(" ".join(notes))
    for metric, signature in analysis.signatures.items():
        document.paragraph(f"{metric}: {signature}")


def add_curves(document: Document, reported: Sequence[Reported], out: Path) -> None:
    """Learning curves of the systems that have a log: of what latent models are compared by, as far as they log it."""
    logs: Dict[str, Any] = {}
    logged: Set[str] = set()
    for one in reported:
        if one.system.log is not None:
            try:
                read = read_run(one.system.log)
            except OptionError:  # a log that is none says nothing about the system
                continue
            logs[one.system.name] = one.system.log
            logged.update(read.train, read.valid)
    metrics = [group for group, names in curves.GROUPS.items() if logged.intersection(names)]
    metrics += [name for name in ("loss",) if name in logged]
    if not metrics:
        return
    document.heading("Learning curves")
    curves.plot_curves(logs, metrics, out / "curves.png")
    document.picture(out / "curves.png", "Training and validation, by epoch.")


def add_alignments(
    document: Document, reported: Sequence[Reported], gold: Optional[Sequence[GoldAlignment]], path: Optional[str]
) -> None:
    """How peaked the attention is, and how good an alignment."""
    document.heading("Attention as an alignment")
    headers = ["system", "entropy, nats", "greatest weight", "weight on the end"]
    rows: List[List[object]] = [
        [one.system.name, one.measured.entropy, one.measured.greatest, one.measured.end] for one in reported
    ]
    notes = "Means over the subwords of the references; weights are divided by their sum."
    if gold is not None:
        systems, _ = aer.load_alignments(
            [f"{one.system.name}={one.forced.path}" for one in reported], Linking(end="exclude")
        )
        headers += ["AER", "precision", "recall", "F1", "links"]
        for row, result in zip(rows, aer.evaluate(systems, gold)):
            score = result.score
            row += [f"{value:.3f}" for value in (score.aer, score.precision, score.recall, score.f1)]
            row.append(f"{result.links:,}")
        notes += f" Each target word is linked to the source word of greatest weight; gold: {Path(path or '').name}."
    document.table(headers, rows)
    document.paragraph(notes)


def add_heatmaps(
    document: Document,
    reported: Sequence[Reported],
    out: Path,
    count: int,
    gold: Optional[Sequence[GoldAlignment]],
) -> None:
    """The first sentences of fitting length, all systems side by side."""
    if count < 1:
        return
    systems = [one.forced for one in reported]
    folder = out / "heatmaps"
    folder.mkdir(exist_ok=True)
    document.subheading("Where they look")
    drawn = False
    for chosen in heatmaps.choose_sentences(systems, first=count, length=PICTURE_WORDS):
        path = folder / f"{chosen.number:05d}.png"
        links = gold[chosen.number] if gold is not None else None
        panels = heatmaps.panels_of(systems, chosen, [["attention"]] * len(systems), gold=links, normalize=True)
        plot.heatmaps(panels, path)
        document.picture(path, f"Sentence {chosen.number}, the reference forced; rows divided by their sums.")
        drawn = True
    if not drawn:
        document.paragraph(
            f"No sentence of {PICTURE_WORDS.least} to {PICTURE_WORDS.most} source words is in all of them."
        )


def add_frequencies(document: Document, analysis: frequency.Analysis, out: Path) -> None:
    """Rare and frequent words in the outputs, and how often they are right."""
    document.heading("Rare and frequent words")
    document.paragraph(
        "Share of all words that fall into each tenth of the training text, from its rarest words to its most frequent "
        "ones, in per cent, and deviation from the reference in per cent of it."
    )
    document.table(*frequency_frequency_tables.frequency_table(analysis))
    folder = out / "frequency"
    folder.mkdir(exist_ok=True)
    pictures = {path.stem: path for path in frequency_drawing.draw(analysis, folder)}
    accuracy = pictures.pop("accuracy")
    for name, path in pictures.items():
        document.picture(path, "Rare words." if name == "rare" else "All words.")
    document.subheading("Target words that are right")
    document.paragraph("F (precision / recall) in per cent, by how often a word is in the training text.")
    document.table(*frequency_frequency_tables.accuracy_table(analysis))
    document.picture(accuracy, "F by training count.")


def add_examples(
    document: Document, corpus: Corpus, outputs: Mapping[str, Sequence[str]], out: Path, count: int
) -> None:
    """The sentences in whose translations the systems differ most."""
    if count < 1:
        return
    document.heading("Translations side by side")
    found = compare.compare(outputs, corpus.reference, corpus.source, "difference", "chrf", first=max(count, 200))
    with whole_text(out / "compare.html", f"--out {out}: compare.html cannot be written") as stream:
        stream.write(compare_comparison_pages.as_html(found))
    document.paragraph(
        "The sentences whose scores differ most. *Words* are not in the reference, [words] are only in it."
    )
    for sentence in found.sentences[:count]:
        rows: List[Sequence[object]] = [
            ["source", sentence.source, None, None],
            ["reference", " ".join(word for word, _ in sentence.reference), None, None],
        ]
        for one in sentence.outputs:
            rows.append([one.label, " ".join(map(_marked, one.spans)), one.scores["bleu"], one.scores["chrf"]])
        document.table([f"sentence {sentence.number}", "", "BLEU", "chrF"], rows)
    document.link(out / "compare.html", f"{len(found.sentences)} sentences side by side")


def _marked(span: compare.Span) -> str:
    words = " ".join(span.words)
    return {"same": "{}", "other": "*{}*", "missing": "[{}]"}[span.kind].format(words)


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
        [word, ", ".join(f"{entry.target} {entry.probability:.2f}" for entry in found[word][:4])]
        for word in frequent[:LEXICON_WORDS]
    ]
    document.paragraph("P(target | source) from the links of this split; the most frequent source words:")
    document.table(["source", "targets"], rows)
    document.link(path, f"{len(found):,} source words")


def add_explorer(document: Document, reported: Sequence[Reported], out: Path, count: int) -> None:
    """A page on which one sees where each system looked."""
    path = out / "explore.html"
    shown = explore.collect([one.forced for one in reported], first=count)
    explore.write_page(shown, path)
    document.heading("Sentence by sentence")
    document.link(path, f"Explore the attention in {len(shown.data['sentences'])} sentences")


def add_origin(document: Document, reported: Sequence[Reported], failed: Mapping[str, str], command: str) -> None:
    """What was left out and why, and how to make the report again."""
    import fairseq
    import torch

    from fairseq_attn_plugin import __version__

    if failed:
        document.heading("Left out")
        document.table(["system", "why"], list(failed.items()))
    document.heading("How this was made")
    if command:
        document.code(command)
    rows = [[one.system.name, one.forced.header.checkpoint] for one in reported]
    document.table(["system", "checkpoint"], rows)
    versions = {
        "fairseq_attn_plugin": __version__,
        "fairseq": fairseq.__version__,
        "torch": torch.__version__,
        "Python": platform.python_version(),
    }
    document.paragraph(", ".join(f"{name} {version}" for name, version in versions.items()) + ".")
