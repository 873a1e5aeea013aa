"""Builds a report on a folder of trained systems: extracts attention, then writes ``report.md`` and ``report.html``."""

import gc
import sys
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, read_gold
from fairseq_attn_plugin.analysis.inference.attention_file import describe_extraction, extract_file, test_sentences
from fairseq_attn_plugin.analysis.inference.extraction import Extraction
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_models, load_split
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences, symbols_of
from fairseq_attn_plugin.analysis.outputs import frequency
from fairseq_attn_plugin.analysis.outputs.reading import unknown_in_reference
from fairseq_attn_plugin.analysis.outputs.significance import score_systems
from fairseq_attn_plugin.analysis.pages.document import Document
from fairseq_attn_plugin.analysis.records.files import check_same, open_records
from fairseq_attn_plugin.analysis.report import sections
from fairseq_attn_plugin.analysis.report.systems import Reported, System, find_systems, groups_of, measures
from fairseq_attn_plugin.errors import OptionError, one_line
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.lines import iter_lines
from fairseq_attn_plugin.text.subwords import spell, vocabulary_subwords
from fairseq_attn_plugin.writing import make_folder, whole_text


@dataclass
class _Read:
    """Everything that the report reads; the texts are words, a line for each sentence."""

    reported: List[Reported] = field(default_factory=list)
    failed: Dict[str, str] = field(default_factory=dict)  # {system: reason}
    source: List[str] = field(default_factory=list)
    reference: List[str] = field(default_factory=list)
    outputs: Dict[str, List[str]] = field(default_factory=dict)  # translations of each training
    left_out: Dict[str, int] = field(default_factory=dict)  # sentences that are too long for a training
    training: Optional[Mapping[str, int]] = None  # counts of the words of the training text's target side
    alignments: Optional[List[GoldAlignment]] = None


def write_report(folder: Path, data: str, out: Path, settings: Namespace) -> Document:
    """Extracts missing attention, and writes ``report.md``, ``report.html`` and the files that they show.

    A system that cannot be read is named in the report, and the others are reported.

    ``folder`` is that of :func:`.find_systems`; ``settings`` are the options of ``fairseq-attn report``. Raises
    ``OptionError`` if no system can be read, or a file of the settings cannot.
    """
    systems = find_systems(folder, settings.systems)
    for name in {frequency.TRAINING, frequency.REFERENCE} & {system.name for system in systems}:
        raise OptionError(f"{folder / name}: has the name of a column in the tables; rename the folder")
    if settings.gold is not None:  # an error in the file must appear before hours of work
        read_gold(settings.gold, settings.one_based)
    make_folder("--out", out / "attention")
    read = _read(systems, data, out / "attention", settings)
    if not read.reported:
        reasons = "; ".join(map(": ".join, read.failed.items()))
        raise OptionError(f"{folder}: none of its systems can be read; {reasons}")
    document = _document(read, out, settings)
    for name, text in (("report.md", document.markdown(out)), ("report.html", document.html(out))):
        with whole_text(out / name, f"--out {out}: {name} cannot be written") as stream:
            stream.write(text)
    return document


def _read(systems: Sequence[System], data: str, folder: Path, settings: Namespace) -> _Read:
    """Extracts the attention of all systems into ``folder``, one model in memory at a time."""
    read = _Read()
    for number, system in enumerate(systems, 1):
        print(f"{system.name} ({number} of {len(systems)})", flush=True)
        try:
            if system.fault:
                raise OptionError(system.fault)
            loaded = load_models(system.model.data if system.model else data, str(system.checkpoint), cpu=settings.cpu)
            leader = read.reported[0] if read.reported else None
            if leader and loaded.languages != (leader.forced.header.source_lang, leader.forced.header.target_lang):
                raise OptionError(
                    f"translates {'-'.join(loaded.languages)}, another direction than {leader.system.name}; choose "
                    "those of one direction by --systems"
                )
            sentences = _sentences(loaded, system, settings)
            found = _extract(loaded, system, sentences, folder, settings)
            if leader:
                _check_corpus(found, leader, read.source)
            read.reported.append(found)
        except Exception as error:  # a foreign checkpoint can raise anything; the other systems are still reported
            first_line = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]
            read.failed[system.name] = one_line(error) or first_line
            gc.collect()
            print(f"{system.name}: left out: {read.failed[system.name]}", file=sys.stderr, flush=True)
            continue
        if len(read.reported) == 1:
            read.training = _training_words(loaded)
            _read_corpus(read, sentences, settings)
        # a sentence that is too long for a model has an empty translation
        read.outputs[system.name] = [""] * len(read.reference)
        read.left_out[system.name] = len(read.reference)
        for record in found.beam:
            read.outputs[system.name][record.id] = " ".join(record.target_words)
            read.left_out[system.name] -= 1
        del loaded, sentences
        gc.collect()
    return read


def _check_corpus(found: Reported, leader: Reported, source: Sequence[str]) -> None:
    """Raises ``OptionError`` if a training has other sentences than the first one, whose ``source`` is known."""
    sizes = [one.forced.header.sentences for one in (found, leader)]
    if sizes[0] != sizes[1]:
        raise OptionError(f"has {sizes[0]} sentences, {leader.system.name} has {sizes[1]}: another test set")
    for record in found.forced:
        theirs = leader.system.name, source[record.id].split()
        check_same(record.id, "source", theirs, (found.system.name, record.source_words))


def _read_corpus(read: _Read, sentences: Any, settings: Namespace) -> None:
    """Reads the texts, also of sentences that are too long for the first model, and the gold alignments."""
    subwords = read.reported[0].forced.header.subwords
    lengths: List[Optional[Tuple[int, int]]] = []
    for one in sentences(0):
        source, target = spell(one.source_tokens, subwords), spell(one.target_tokens, subwords)
        read.source.append(" ".join(source))
        read.reference.append(unknown_in_reference(" ".join(target)))
        lengths.append((len(source), len(target)))
    if settings.gold is not None:
        read.alignments = read_gold(settings.gold, settings.one_based, lengths)


def _training_words(teacher: LoadedModels) -> Optional[Mapping[str, int]]:
    """Counts of the words of the target side of the training split, or None without a training split."""
    try:
        dataset = load_split(teacher, "train")
    except (OptionError, FileNotFoundError):
        return None
    dictionary = teacher.task.target_dictionary
    subwords = vocabulary_subwords(dictionary)
    counts: Counter[str] = Counter()
    for number in tqdm(range(len(dataset)), desc="training words", unit=" sentences", disable=None, leave=False):
        counts.update(spell(symbols_of(dataset.tgt[number], dictionary), subwords))
    del counts["<unk>"]
    return counts or None


def _scored_texts(read: _Read, settings: Namespace) -> Tuple[Dict[str, List[str]], List[str], str]:
    """The outputs and references whose BLEU, chrF and TER a report has, and sacrebleu's tokenizer for BLEU.

    Of model folders they are what ``fairseq-attn train`` scores: detokenised text, and the references as they were
    given. Otherwise they are the words of the outputs.
    """
    models = [one.system.model for one in read.reported if one.system.model is not None]
    if settings.gen_subset != "test" or len(models) < len(read.reported):
        return read.outputs, read.reference, "none"
    texts = {name: list(map(model.detokenizer(), lines)) for (name, lines), model in zip(read.outputs.items(), models)}
    return texts, list(iter_lines(models[0].test_file("reference"))), models[0].bleu_tokenizer


def _write_texts(read: _Read, out: Path) -> None:
    """Writes the source, the references and each training's translations, a line for each sentence."""
    texts: Dict[str, Sequence[str]] = {"source.txt": read.source, "reference.txt": read.reference}
    texts.update({f"outputs/{name}.txt": lines for name, lines in read.outputs.items()})
    for name, lines in texts.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        with whole_text(out / name, f"--out {out}: {name} cannot be written") as stream:
            stream.writelines(f"{line}\n" for line in lines)


def _document(read: _Read, out: Path, settings: Namespace) -> Document:
    groups = groups_of(read.reported)
    # one training of a system is shown where there is no mean
    shown = [group.runs[0] for group in groups]
    about = shown[0].forced.header
    document = Document(f"Attention of {counted(len(groups), 'system')}, {about.source_lang}-{about.target_lang}")
    document.paragraph(
        f"{counted(about.sentences, 'sentence')} ({about.split}). Attention is measured with the reference forced; "
        f"translations are from beam search of width {settings.beam}."
    )
    for name in filter(read.left_out.get, read.left_out):
        document.paragraph(
            f"Too long for {name}: {counted(read.left_out[name], 'sentence')}. Their translations are empty; its "
            "perplexity and attention are those of the others."
        )
    if len(shown) < len(read.reported):
        document.paragraph(
            "Trainings that differ in the seed only are one system: means over the seeds, in brackets their standard "
            "deviation. Heatmaps, words and sentences are those of the first seed."
        )
    tested = groups[0].name if settings.samples and len(groups) > 1 else None
    texts, reference, tokenize = _scored_texts(read, settings)
    scores, signatures = score_systems(
        {group.name: [texts[run.system.name] for run in group.runs] for group in groups},
        reference,
        baseline=tested,
        samples=settings.samples,
        tokenize=tokenize,
        seeds_of={group.name: group.seeds for group in groups},
    )
    explored = sections.write_explorer(shown, out)
    _write_texts(read, out)
    sections.add_systems(document, groups, scores, signatures, tested)
    sections.add_alignments(document, groups, read.alignments, settings.gold)
    sections.add_heatmaps(document, shown, out, read.alignments, explored)
    outputs = {one.system.name: read.outputs[one.system.name] for one in shown}
    if read.training is not None:
        frequency.add_frequencies(document, frequency.analyse(read.training, read.reference, outputs))
    # the outputs are words already, but for languages without blanks between them
    marked = "none" if tokenize == "13a" else tokenize
    sections.add_examples(document, read.source, read.reference, outputs, out, explored, marked)
    document.heading("Sentence by sentence")
    document.link(out / sections.EXPLORER, f"Explore the attention in {counted(len(explored), 'sentence')}")
    sections.add_origin(document, read.reported, read.failed, settings.command)
    return document


def _sentences(loaded: LoadedModels, system: System, settings: Namespace) -> Any:
    if system.model is not None and settings.gen_subset == "test":
        return test_sentences(system.model, loaded)  # a folder that was copied has no other data
    return SplitSentences(loaded, settings.gen_subset)


def _extract(loaded: LoadedModels, system: System, sentences: Any, folder: Path, settings: Namespace) -> Reported:
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
    return Reported(system, parameters, forced, translated, measures(forced), loaded.config.common.seed)
