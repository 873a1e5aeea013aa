"""Builds a report on a folder of trained systems: extracts attention, then writes ``report.md`` and ``report.html``."""

from __future__ import annotations

import gc
import sys
from argparse import Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, read_gold
from fairseq_attn_plugin.analysis.inference.attention_file import describe_extraction, extract_file, test_sentences
from fairseq_attn_plugin.analysis.inference.extraction import Extraction
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_models
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences
from fairseq_attn_plugin.analysis.outputs import frequency
from fairseq_attn_plugin.analysis.outputs.frequency import add_frequencies
from fairseq_attn_plugin.analysis.outputs.reading import read_lines
from fairseq_attn_plugin.analysis.outputs.significance import check_tokenizer, score_systems
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.analysis.records.files import open_records
from fairseq_attn_plugin.analysis.report import sections
from fairseq_attn_plugin.analysis.report.corpus import (
    Corpus,
    corpus_of,
    outputs_of,
    scored_texts,
    training_words,
    write_texts,
)
from fairseq_attn_plugin.analysis.report.systems import (
    Group,
    Reported,
    System,
    find_systems,
    groups_of,
    measures,
    without_seed,
)
from fairseq_attn_plugin.errors import OptionError, one_line
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.writing import make_folder, whole_text


@dataclass
class _Read:
    """Everything that the report reads."""

    reported: List[Reported] = field(default_factory=list)
    failed: Dict[str, str] = field(default_factory=dict)  # {system: reason}
    corpus: Optional[Corpus] = None
    alignments: Optional[List[GoldAlignment]] = None


def write_report(folder: Path, data: str, out: Path, settings: Namespace) -> Document:
    """Extracts missing attention, and writes ``report.md``, ``report.html`` and the files that they show.

    A system that cannot be read is named in the report, and the others are reported.

    Args:
        folder: of the trained systems, see :func:`~fairseq_attn_plugin.analysis.report.systems.find_systems`
        data: folder that fairseq-preprocess wrote
        out: folder to write
        settings: the options of ``fairseq-attn report``

    Raises:
        OptionError: no system can be read, or a file of the settings cannot
    """
    systems = find_systems(folder, settings.systems)
    _check(systems, folder, settings)
    # errors in these files must appear before hours of work
    given = read_lines(settings.reference) if settings.reference is not None else None
    if settings.gold is not None:
        read_gold(settings.gold, settings.one_based)
    make_folder("--out", out / "attention")
    read = _read(systems, data, out / "attention", settings, given)
    if read.corpus is None:
        reasons = "; ".join(map(": ".join, read.failed.items()))
        raise OptionError(f"{folder}: none of its systems can be read; {reasons}")
    document = _document(read, read.corpus, out, settings)
    for name, text in (("report.md", document.markdown(out)), ("report.html", document.html(out))):
        with whole_text(out / name, f"--out {out}: {name} cannot be written") as stream:
            stream.write(text)
    return document


def _check(systems: Sequence[System], folder: Path, settings: Namespace) -> None:
    names = [system.name for system in systems]
    if settings.baseline is not None and settings.baseline not in {*names, *map(without_seed, names)}:
        raise OptionError(f"--baseline {settings.baseline}: must be one of {', '.join(names)}")
    for name in {frequency.TRAINING, frequency.REFERENCE} & set(names):
        raise OptionError(f"{folder / name}: has the name of a column in the tables; rename the folder")
    check_tokenizer(settings.tokenize or "none")


def _read(
    systems: Sequence[System],
    data: str,
    folder: Path,
    settings: Namespace,
    given: Optional[List[str]],
) -> _Read:
    """Extracts the attention of all systems into ``folder``, one model in memory at a time."""
    read = _Read()
    for number, system in enumerate(systems, 1):
        print(f"{system.name} ({number} of {len(systems)})", flush=True)
        try:
            loaded = load_models(system.model.data if system.model else data, str(system.checkpoint), cpu=settings.cpu)
            read.reported.append(_extract(loaded, system, folder, settings))
        except Exception as error:  # a foreign checkpoint can raise anything; the other systems are still reported
            read.failed[system.name] = _reason(error)
            gc.collect()
            print(f"{system.name}: left out: {read.failed[system.name]}", file=sys.stderr, flush=True)
            continue
        if read.corpus is None:
            read.corpus, lengths = corpus_of(read.reported[0].forced, given, training_words(loaded), settings.reference)
            if settings.gold is not None:
                read.alignments = read_gold(settings.gold, settings.one_based, lengths)
        del loaded
        gc.collect()
    return read


def _document(read: _Read, corpus: Corpus, out: Path, settings: Namespace) -> Document:
    groups = groups_of(read.reported)
    # one training of a system is shown where there is no mean
    shown = [group.runs[0] for group in groups]
    base = _baseline(groups, settings.baseline)
    about = shown[0].forced.header
    document = Document(f"Attention of {counted(len(groups), 'system')}, {about.source_lang}-{about.target_lang}")
    document.paragraph(
        f"{counted(about.sentences, 'sentence')} ({about.split}). Attention is measured with the reference forced; "
        f"translations are from beam search of width {settings.beam}."
    )
    if len(shown) < len(read.reported):
        document.paragraph(
            "Trainings that differ in the seed only are one system: means over the seeds, in brackets their standard "
            "deviation. Heatmaps, words and sentences are those of the first seed."
        )
    tested = groups[base].name if settings.samples and len(groups) > 1 else None
    scored = scored_texts(read.reported, corpus, settings)
    scores, signatures = score_systems(
        {group.name: [scored.outputs[run.system.name] for run in group.runs] for group in groups},
        scored.reference,
        baseline=tested,
        samples=settings.samples,
        tokenize=scored.tokenize,
        seeds_of={group.name: group.seeds for group in groups},
    )
    explored = sections.write_explorer(shown, out)
    write_texts(read.reported, corpus, out)
    sections.add_systems(document, groups, scores, signatures, tested)
    sections.add_alignments(document, groups, read.alignments, settings.gold)
    sections.add_heatmaps(document, shown, out, read.alignments, explored)
    outputs = outputs_of(shown, corpus)
    if corpus.training is not None:
        (out / "frequency").mkdir(exist_ok=True)
        words = frequency.analyse(corpus.training, corpus.reference, outputs)
        add_frequencies(document, words, out / "frequency")
    sections.add_examples(document, corpus, outputs, out, explored)
    sections.add_explorer(document, out, explored)
    sections.add_origin(document, read.reported, read.failed, settings.command)
    return document


def _baseline(groups: Sequence[Group], name: Optional[str]) -> int:
    """The place of the system with this name, or with a training of this name; the first by default."""
    for place, group in enumerate(groups):
        names = [one for run in group.runs for one in (run.system.name, without_seed(run.system.name))]
        if name in (group.name, *names):
            return place
    return 0


def _reason(error: Exception) -> str:
    known = one_line(error)
    if known is not None:
        return known
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _extract(loaded: LoadedModels, system: System, folder: Path, settings: Namespace) -> Reported:
    sentences: Any = SplitSentences(loaded, settings.gen_subset)
    if system.model is not None and settings.gen_subset == "test":
        sentences = test_sentences(system.model, loaded)
    paths = []
    for width in (None, settings.beam):
        path = folder / f"{system.name}.{'reference' if width is None else 'beam'}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        extraction = Extraction(beam=width)
        header = describe_extraction(loaded, sentences, extraction, system.name)
        extract_file(loaded, sentences, path, header, extraction, existing="renew")
        paths.append(path)
    forced, translated = map(open_records, paths)
    parameters = sum(parameter.numel() for model in loaded.models for parameter in model.parameters())
    return Reported(system, parameters, forced, translated, measures(forced), loaded.config)
