"""Everything about a folder of trained systems in one report, as Markdown and as a page.

    attn-analysis report FOLDER --data DATA --out REPORT [--gold LINKS] [--systems soft mqt]

A system is a folder in FOLDER with ``checkpoint_best.pt`` (or ``checkpoint_last.pt``) in it or in its ``checkpoints``;
``train.log``, ``log`` or another ``.log`` beside it, or a folder ``tensorboard``, is its training. Attention is
extracted twice, with the reference forced and for the beam's translations, into ``REPORT/attention``: what is there
already is not extracted again, so that a report that was interrupted, or has further options, is soon there. A system
that cannot be read is named in the report, and the others are reported.
"""

from __future__ import annotations

import gc
import math
import sys
from collections import Counter
from pathlib import Path
from typing import Counter as Counts
from typing import Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, read_gold
from fairseq_attn_plugin.analysis.commands import frequency as frequency_command
from fairseq_attn_plugin.analysis.inference.attention_file import describe_extraction, extract_file
from fairseq_attn_plugin.analysis.inference.extraction import Extraction
from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_models, load_split
from fairseq_attn_plugin.analysis.inference.segmenter import vocabulary_subwords
from fairseq_attn_plugin.analysis.inference.sentences import SplitSentences, symbols_of
from fairseq_attn_plugin.analysis.outputs import frequency
from fairseq_attn_plugin.analysis.outputs.reading import check_lengths, read_lines, unknown_in_reference
from fairseq_attn_plugin.analysis.records.files import Records, open_records
from fairseq_attn_plugin.analysis.report import sections
from fairseq_attn_plugin.analysis.report.document import Document
from fairseq_attn_plugin.analysis.report.sections import Corpus, Measures, Reported, System
from fairseq_attn_plugin.analysis.web import explore
from fairseq_attn_plugin.errors import OptionError, one_line
from fairseq_attn_plugin.text.subwords import spell
from fairseq_attn_plugin.writing import whole_text

__all__ = ["find_systems", "measures", "write_report"]


CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
LOGS = ("train.log", "log", "log/train")  # the recipes', and the demo's


def find_systems(folder: Path, names: Optional[Sequence[str]] = None) -> List[System]:
    """The systems of a folder by name, or those of ``names`` in their order.

    Raises ``OptionError`` if there are none, or one of ``names`` is not there.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder}: is no folder")
    found = {}
    for child in sorted(folder.iterdir()) if names is None else [folder / name for name in names]:
        places = [place / name for name in CHECKPOINTS for place in (child, child / "checkpoints")]
        checkpoint = next((path for path in places if path.is_file()), None)
        if checkpoint is not None:
            logs = [path for path in [*(child / name for name in LOGS), *sorted(child.glob("*.log"))] if path.is_file()]
            logs += [path for path in [child / "tensorboard"] if path.is_dir()]
            found[child.name] = System(child.name, checkpoint, logs[0] if logs else None)
        elif names is not None:
            raise OptionError(f"--systems {child.name}: there is no {CHECKPOINTS[0]} in {child}")
    if not found:
        raise OptionError(f"{folder}: no folder in it has a {' or '.join(CHECKPOINTS)}")
    return list(found.values())


def measures(records: Records) -> Measures:
    """Of forced references; raises ``OptionError`` if there is no sentence.

    Weights are divided by their sum, which is not one for every mechanism; H = -sum_j a_tj log a_tj.
    """
    log_probability = entropy = greatest = end = 0.0
    subwords = rows = 0
    for record in records:
        log_probability += sum(record.scores)
        subwords += len(record.scores)
        weights = record.attention[:-1].astype(float)
        total = weights.sum(axis=1, keepdims=True)
        weights = (weights / np.where(total > 0, total, 1))[total[:, 0] > 0]
        entropy -= float((weights * np.log(np.where(weights > 0, weights, 1))).sum())
        greatest += float(weights.max(axis=1).sum()) if len(weights) else 0.0
        end += float(weights[:, -1].sum())
        rows += len(weights)
    if not subwords:
        raise OptionError(f"{records.path}: has no sentence")
    rows = max(rows, 1)
    # a model that gives a word no probability at all has an infinite perplexity
    mean = -log_probability / subwords
    return Measures(math.exp(mean) if mean < 700 else math.inf, entropy / rows, greatest / rows, end / rows)


def write_report(
    folder: Path,
    data: str,
    out: Path,
    names: Optional[Sequence[str]] = None,
    split: str = "test",
    beam: int = 5,
    gold: Optional[str] = None,
    gold_format: str = "auto",
    one_based: bool = False,
    reference: Optional[str] = None,
    train_text: Optional[str] = None,
    baseline: Optional[str] = None,
    samples: int = 1000,
    tokenize: str = "none",
    pictures: int = 4,
    examples: int = 6,
    explored: int = explore.FIRST,
    max_tokens: int = 4000,
    cpu: bool = False,
    title: Optional[str] = None,
    command: str = "",
) -> Document:
    """Extracts what is not there yet, and writes ``report.md``, ``report.html`` and everything that they show.

    Args:
        folder: of the trained systems, see :func:`find_systems`
        data: folder that fairseq-preprocess wrote
        out: folder to write
        names: of the systems (default: all)
        split: on which they are compared
        beam: width
        gold: file of gold alignments of the split's words
        gold_format, one_based: one of ``GOLD_FORMATS``; a Pharaoh file's words are counted from 1
        reference: text to score against (default: the split's target side, its words that are not in the vocabulary
            as ``<unk>``)
        train_text: target side of the training text (default: the data's training split, if it is there)
        baseline: system that all others are compared with (default: the first)
        samples: of the paired bootstrap; 0: none
        tokenize: sacrebleu's tokenizer for BLEU
        pictures, examples, explored: sentences with heatmaps, in the comparison, on the page to explore
        command: shown at the end

    Raises:
        OptionError: none of the systems can be read, or a file that is named cannot
    """
    systems = find_systems(folder, names)
    if baseline is not None and baseline not in [system.name for system in systems]:
        raise OptionError(f"--baseline {baseline}: is none of {', '.join(system.name for system in systems)}")
    for name in {frequency.TRAINING, frequency.REFERENCE} & {system.name for system in systems}:
        raise OptionError(f"{folder / name}: has the name of a column of the tables; give the folder another one")
    frequency_command.check_tokenizer(tokenize)
    # what is wrong with these is known before hours of work
    given = read_lines(reference) if reference is not None else None
    counted = frequency.count_training(train_text) if train_text is not None else None
    if gold is not None:
        read_gold(gold, gold_format, one_based)
    for path in (out, out / "attention"):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"--out {out}: cannot be made: {error.strerror or error}") from None

    reported: List[Reported] = []
    failed: Dict[str, str] = {}
    corpus: Optional[Corpus] = None
    alignments: Optional[List[GoldAlignment]] = None
    for number, system in enumerate(systems, 1):
        print(f"{system.name} ({number} of {len(systems)})", flush=True)
        try:
            teacher = load_models(data, str(system.checkpoint), cpu=cpu)
            reported.append(_extract(teacher, system, out / "attention", split, beam, max_tokens))
        except Exception as error:  # whatever a checkpoint that is no model of ours raises: the others are reported
            failed[system.name] = _reason(error)
            gc.collect()
            print(f"{system.name}: left out: {failed[system.name]}", file=sys.stderr, flush=True)
            continue
        if corpus is None:
            training = counted if counted is not None else _training_words(teacher)
            corpus, lengths = _corpus(reported[0].forced, given, training, reference)
            if gold is not None:
                alignments = read_gold(gold, gold_format, one_based, lengths)
        teacher = None  # type: ignore[assignment]  # one model in memory at a time
        gc.collect()
    if corpus is None:
        raise OptionError(f"{folder}: none of its systems can be read; {'; '.join(map(': '.join, failed.items()))}")

    labels = [one.system.name for one in reported]
    base = baseline if baseline in labels else labels[0]
    about = reported[0].forced.header
    document = Document(title or f"Attention of {len(labels)} systems, {about.source_lang}-{about.target_lang}")
    document.paragraph(
        f"{about.sentences:,} sentences ({about.split}). Attention is that to the reference, which is forced; "
        f"translations are those of a beam of {beam}."
    )
    outputs = _outputs(reported, corpus)
    analysis = frequency.analyse(
        corpus.training or frequency.count_words(corpus.reference),
        corpus.reference,
        outputs,
        baseline=base if samples and len(outputs) > 1 else None,
        samples=samples or 1,
        tokenize=tokenize,
    )
    sections.add_systems(document, reported, analysis)
    sections.add_curves(document, reported, out)
    sections.add_alignments(document, reported, alignments, gold)
    sections.add_heatmaps(document, reported, out, pictures, alignments)
    if corpus.training is not None:
        sections.add_frequencies(document, analysis, out)
    sections.add_examples(document, corpus, outputs, out, examples)
    sections.add_lexicon(document, reported[labels.index(base)], out)
    sections.add_explorer(document, reported, out, explored)
    sections.add_origin(document, reported, failed, command)
    for name, text in (("report.md", document.markdown(out)), ("report.html", document.html(out))):
        with whole_text(out / name, f"--out {out}: {name} cannot be written") as stream:
            stream.write(text)
    return document


def _reason(error: Exception) -> str:
    known = one_line(error)
    if known is not None:
        return known
    first = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _extract(teacher: LoadedModels, system: System, folder: Path, split: str, beam: int, max_tokens: int) -> Reported:
    sentences = SplitSentences(teacher, split)
    paths = []
    for width in (None, beam):
        path = folder / f"{system.name}.{'reference' if width is None else 'beam'}.jsonl"
        extraction = Extraction(beam=width, max_tokens=max_tokens)
        header = describe_extraction(teacher, sentences, extraction, system.name)
        extract_file(teacher, sentences, path, header, extraction, existing="renew")
        paths.append(path)
    forced, translated = map(open_records, paths)
    parameters = sum(parameter.numel() for model in teacher.models for parameter in model.parameters())
    return Reported(system, parameters, forced, translated, measures(forced))


def _corpus(
    forced: Records, given: Optional[List[str]], training: Optional[Mapping[str, int]], reference: Optional[str]
) -> Tuple[Corpus, List[Optional[Tuple[int, int]]]]:
    """The corpus, and the numbers of words of its sentences where they are known."""
    source, target = [""] * forced.header.sentences, [""] * forced.header.sentences
    lengths: List[Optional[Tuple[int, int]]] = [None] * forced.header.sentences
    for record in forced:
        source[record.id] = " ".join(record.source_words)
        target[record.id] = unknown_in_reference(" ".join(record.target_words))
        lengths[record.id] = (len(record.source_words), len(record.target_words))
    if given is not None:
        check_lengths({forced.header.split: source, f"--reference {reference}": given})
    return Corpus(source, target if given is None else given, training), lengths


def _training_words(teacher: LoadedModels) -> Optional[Mapping[str, int]]:
    """Counts of the words of the target side of the training split, if the data have one."""
    try:
        dataset = load_split(teacher, "train")
    except (OptionError, FileNotFoundError):
        return None
    dictionary = teacher.task.target_dictionary
    subwords = vocabulary_subwords(dictionary)
    counts: Counts[str] = Counter()
    for number in tqdm(range(len(dataset)), desc="training words", unit=" sentences", disable=None, leave=False):
        counts.update(spell(symbols_of(dataset.tgt[number], dictionary), subwords))
    del counts["<unk>"]
    return counts or None


def _outputs(reported: Sequence[Reported], corpus: Corpus) -> Dict[str, List[str]]:
    """The translations; a sentence that is too long for a model has none."""
    outputs = {}
    for one in reported:
        lines = [""] * len(corpus.reference)
        for record in one.beam:
            lines[record.id] = " ".join(record.target_words)
        outputs[one.system.name] = lines
    return outputs
