"""Reads the outputs of systems, one line for each sentence in the order of the corpus.

A file is one of three kinds: a file of ``fairseq-attn extract`` (``.jsonl``), the output of fairseq-generate or
-interactive (lines ``H-0``, ..., in any order), or plain text with a sentence in each line. The suffix identifies the
first kind, and the lines the second.
"""

import re
import sys
from pathlib import Path
from typing import Collection, Dict, Iterable, List, Mapping, Optional, Sequence

from fairseq_attn_plugin.analysis.records.files import check_labels, is_records, label_and_path, open_records
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import iter_lines
from fairseq_attn_plugin.text.subwords import subwords_of
from fairseq_attn_plugin.writing import PathLike

_HYPOTHESIS = re.compile(r"H-(\d{1,18})\t(?:-?(?:[0-9.]+(?:e[-+]?\d+)?|inf|nan))(?:\t(.*))?$")  # a score, then the text
_STOPS = (".", "!", "?", "...")


def read_output(path: PathLike) -> List[str]:
    """The output of a system, a line of tokens for each sentence.

    From the output of fairseq-generate these are the best hypotheses before detokenisation, from extracted attention
    the words of the hypotheses.

    Raises:
        OptionError: the file cannot be read, lacks a sentence, or contains attention to the references
    """
    if is_records(path):
        return _from_records(path, reference=False)
    lines = list(iter_lines(path))
    found: Dict[int, str] = {}
    for line in lines:
        match = _HYPOTHESIS.match(line) if line.startswith("H-") else None
        if match is not None:
            found.setdefault(int(match[1]), match[2] or "")  # with --nbest the best one is first
    if not found and lines and re.match(r"[DT]-\d+\t", lines[0]):
        raise OptionError(f"{path}: has lines {lines[0][0]}- of fairseq-generate; give its whole output, or plain text")
    if not found:
        return lines
    missing = next((number for number in range(len(found)) if number not in found), None)
    if missing is not None:
        raise OptionError(
            f"{path}: sentence {missing} has no line H-{missing}; fairseq-generate did not finish, or left "
            "sentences out (with --user-dir fairseq_attn_plugin it keeps those of the last batch)"
        )
    return [found[number] for number in range(len(found))]


def read_reference(path: PathLike) -> List[str]:
    """The references: the lines of a text, or those of an extraction."""
    return _from_records(path, reference=True) if is_records(path) else list(iter_lines(path))


def read_source(path: PathLike) -> List[str]:
    """The source sentences: the lines of a text, or the words of an extraction."""
    if not is_records(path):
        return list(iter_lines(path))
    records = open_records(path)
    lines = [""] * records.header.sentences
    for record in records:
        lines[record.id] = " ".join(record.source_words)
    return lines


def read_systems(specs: Sequence[str]) -> Dict[str, List[str]]:
    """Outputs of several systems, {label: lines}, in the order given.

    Each is ``FILE`` or ``LABEL=FILE``. The default label is the file's name without suffix (for extracted attention the
    name of the system in it).

    Raises ``OptionError`` as :func:`read_output` does, and if two systems have the same label.
    """
    pairs = [label_and_path(spec) for spec in specs]
    labels = [label or (open_records(path).label if is_records(path) else Path(path).stem) for label, path in pairs]
    check_labels(labels)
    return {label: read_output(path) for label, (_, path) in zip(labels, pairs)}


def unknown_in_reference(words: str) -> str:
    """The words with ``<<unk>>`` for ``<unk>``, as in fairseq: an output with ``<unk>`` must not match it."""
    return words.replace("<unk>", "<<unk>>")


def check_lengths(named: Mapping[str, Sequence[str]]) -> None:
    """Raises ``OptionError``, which names two of the files, unless all have the same number of sentences."""
    (first, lines), *others = named.items()
    for name, other in others:
        if len(other) != len(lines):
            raise OptionError(
                f"{name}: has {len(other)} sentences, {first} has {len(lines)}; they must be of the same corpus"
            )


def check_tokenisation(named: Mapping[str, Collection[str]], stops: bool = True) -> None:
    """Raises ``OptionError`` if some of the texts {name: lines} have subwords and others words; with ``stops`` also if
    the full stops at the ends of lines are words in some and parts of words in others.

    A text without words matches all others. Different words without their lines have no full stops.
    """
    kinds = {name: subwords_of(lines) for name, lines in named.items() if any(line.strip() for line in lines)}
    for name, (kind, token) in kinds.items():
        for other, (others_kind, _) in kinds.items():
            if token and others_kind != kind:
                raise OptionError(
                    f"{name}: has subwords ({token}), {other} has {'none' if others_kind == 'none' else 'others'}; "
                    "join them to words, as fairseq-generate --remove-bpe does"
                )
    texts = {name: lines for name, lines in named.items() if stops and isinstance(lines, Sequence)}
    apart = {name: _stops_apart(lines) for name, lines in texts.items()}
    names = [next((name for name, found in apart.items() if found is kind), None) for kind in (True, False)]
    if None not in names:
        raise OptionError(
            f"{names[0]}: has full stops apart from words, {names[1]} attached to them; tokenise all texts in the same "
            "way"
        )


def _stops_apart(lines: Iterable[str]) -> Optional[bool]:
    """Whether nearly all lines that end in a full stop have it as a word of its own; None: neither most nor few."""
    ends = [words[-1] for words in map(str.split, lines) if words and words[-1].endswith(_STOPS)]
    share = sum(end in _STOPS for end in ends) / len(ends) if ends else 0.5
    return None if 0.1 < share < 0.9 else share > 0.5


def _from_records(path: PathLike, reference: bool) -> List[str]:
    records = open_records(path)
    of_references = records.header.target == "reference"
    if of_references and not reference:
        raise OptionError(
            f"{path}: contains attention to the references, not translations; extract with beam search, or give the "
            "output of fairseq-generate"
        )
    found: Dict[int, str] = {}
    for record in records:
        if of_references or not reference:
            words = " ".join(record.target_words)
            found[record.id] = unknown_in_reference(words) if reference else words
        elif record.reference is not None:
            found[record.id] = record.reference
    if reference and not found:
        raise OptionError(f"{path}: has no references; give their text")
    sentences = records.header.sentences
    if len(found) < sentences:
        if reference:
            raise OptionError(
                f"{path}: has references of {len(found)} of its {sentences} sentences only; give their text"
            )
        sys.stderr.write(
            f"{path}: {sentences - len(found)} of {sentences} sentences were not extracted and count as empty\n"
        )
    return [found.get(number, "") for number in range(sentences)]
