"""The texts that a report compares."""

from __future__ import annotations

import re
from argparse import Namespace
from collections import Counter
from pathlib import Path
from typing import Counter as Counts
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_split
from fairseq_attn_plugin.analysis.inference.segmenter import vocabulary_subwords
from fairseq_attn_plugin.analysis.inference.sentences import symbols_of
from fairseq_attn_plugin.analysis.outputs.reading import check_lengths, read_lines, unknown_in_reference
from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.analysis.report.systems import Reported
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import spell
from fairseq_attn_plugin.writing import whole_text

Lengths = List[Optional[Tuple[int, int]]]  # source and target words of each sentence, None where they are unknown


class Corpus(NamedTuple):
    """The sentences that the systems are compared on."""

    source: List[str]  # words, a line each
    reference: List[str]
    training: Optional[Mapping[str, int]]  # counts of the words of the training text's target side


def corpus_of(
    forced: Records, given: Optional[List[str]], training: Optional[Mapping[str, int]], reference: Optional[str]
) -> Tuple[Corpus, Lengths]:
    """The corpus, and the numbers of words of its sentences.

    Args:
        forced: attention to the references, of any system
        given: references to score against (default: those of ``forced``)
        training: counts of the words of the training text
        reference: name of the file of ``given``

    Raises:
        OptionError: ``given`` has another number of sentences
    """
    source, target = [""] * forced.header.sentences, [""] * forced.header.sentences
    lengths: Lengths = [None] * forced.header.sentences
    for record in forced:
        source[record.id] = " ".join(record.source_words)
        target[record.id] = unknown_in_reference(" ".join(record.target_words))
        lengths[record.id] = (len(record.source_words), len(record.target_words))
    if given is not None:
        check_lengths({forced.header.split: source, f"--reference {reference}": given})
    return Corpus(source, target if given is None else given, training), lengths


def training_words(teacher: LoadedModels) -> Optional[Mapping[str, int]]:
    """Counts of the words of the target side of the training split, or None without a training split."""
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


def outputs_of(reported: Sequence[Reported], corpus: Corpus) -> Dict[str, List[str]]:
    """The translations of all systems; a sentence that is too long for a model has an empty one."""
    outputs = {}
    for one in reported:
        lines = [""] * len(corpus.reference)
        for record in one.beam:
            lines[record.id] = " ".join(record.target_words)
        outputs[one.system.name] = lines
    return outputs


class Scored(NamedTuple):
    """The texts whose BLEU, chrF and TER a report has."""

    outputs: Dict[str, List[str]]
    reference: List[str]
    tokenize: str  # sacrebleu's tokenizer for BLEU


def scored_texts(reported: Sequence[Reported], corpus: Corpus, settings: Namespace) -> Scored:
    """Of model folders what ``fairseq-attn train`` scores: detokenised text and the references as they were given.
    Otherwise the words of the outputs."""
    outputs = outputs_of(reported, corpus)
    models = [one.system.model for one in reported if one.system.model is not None]
    asked = settings.reference is not None or settings.tokenize is not None or settings.gen_subset != "test"
    if asked or len(models) < len(reported):
        return Scored(outputs, corpus.reference, settings.tokenize or "none")
    for one, model in zip(reported, models):
        outputs[one.system.name] = list(map(model.detokenizer(), outputs[one.system.name]))
    signature = models[0].settings.get("scores", {}).get("bleu", {}).get("signature", "")
    found = re.search(r"tok:([^|]+)", signature)
    return Scored(outputs, read_lines(str(models[0].test_file("reference"))), found.group(1) if found else "13a")


def write_texts(reported: Sequence[Reported], corpus: Corpus, out: Path) -> None:
    """Writes the source, the references and each training's translations, a line for each sentence."""
    texts: Dict[str, Sequence[str]] = {"source.txt": corpus.source, "reference.txt": corpus.reference}
    texts.update({f"outputs/{name}.txt": lines for name, lines in outputs_of(reported, corpus).items()})
    for name, lines in texts.items():
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        with whole_text(out / name, f"--out {out}: {name} cannot be written") as stream:
            stream.writelines(f"{line}\n" for line in lines)
