"""What systems gave out, sentence by sentence in the order of the corpus, from whatever file it lies in.

    from fairseq_attn_plugin.analysis.outputs import read_reference, read_systems

    systems = read_systems(["soft=soft/test.out", "mqt=mqt/beam.jsonl", "test.hyp"], remove_bpe=True)
    reference = read_reference("test.en")

A file is one of three kinds, told apart by what it holds: the output of fairseq-generate or -interactive (lines
``H-0``, ``T-0``, ..., in any order), a file of ``attn-analysis extract`` (``.jsonl``, ``.npz``), or plain text with a
sentence in each line.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Callable, Collection, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple

from fairseq_attn_plugin.analysis.records.files import label_and_path, open_records
from fairseq_attn_plugin.analysis.records.record import SUFFIXES
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import BPE_MARK, PIECE_MARK, spell
from fairseq_attn_plugin.writing import PathLike

__all__ = [
    "check_lengths",
    "check_tokenisation",
    "iter_lines",
    "join_subwords",
    "read_lines",
    "read_output",
    "read_reference",
    "read_systems",
    "split_label",
    "subwords_of",
]


# a score, after which comes the text; only H and D lines have one
_HYPOTHESIS = re.compile(r"([HD])-(\d+)\t(-?(?:[0-9.]+(?:e[-+]?\d+)?|inf|nan))(?:\t(.*))?$")
_REFERENCE = re.compile(r"T-(\d+)\t(.*)$")


def iter_lines(path: PathLike) -> Iterator[str]:
    """The lines of a text file one by one, without their ends.

    Raises ``OptionError`` if it cannot be read or is not UTF-8.
    """
    number = 0
    try:
        with open(path, encoding="utf-8-sig") as stream:  # str.splitlines would also split at U+2028 and the like
            for line in stream:
                number += 1
                yield line.rstrip("\n")
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: is not UTF-8 after line {number}: {error.reason}") from None


def read_lines(path: PathLike) -> List[str]:
    """As :func:`iter_lines`, all at once."""
    return list(iter_lines(path))


def read_output(path: PathLike, remove_bpe: bool = False) -> List[str]:
    """What a system gave out, a line of tokens for each sentence.

    Of fairseq-generate's output these are the best hypotheses as the model gave them (``H-``, or ``D-`` if there is no
    other), of extracted attention the words of the hypotheses.

    Args:
        path: plain text, output of fairseq-generate, or a file of ``attn-analysis extract``
        remove_bpe: join subwords (of subword-nmt or SentencePiece) to words

    Raises:
        OptionError: the file cannot be read, lacks sentences in its middle, or holds attention to the references
    """
    if Path(path).suffix in SUFFIXES:
        return _from_records(path, reference=False)
    lines = read_lines(path)
    found: Dict[str, Dict[int, str]] = {"H": {}, "D": {}}
    for line in lines:
        match = _HYPOTHESIS.match(line) if line.startswith(("H-", "D-")) else None
        if match is not None:
            found[match[1]].setdefault(int(match[2]), match[4] or "")  # with --nbest the best one comes first
    if found["H"] or found["D"]:
        lines = _in_order(path, found["H"] or found["D"], "H" if found["H"] else "D")
    return list(join_subwords(lines, subwords_of(lines)[0])) if remove_bpe else lines


def read_reference(path: PathLike, remove_bpe: bool = False) -> List[str]:
    """The references: as :func:`read_output`, but the lines ``T-`` of fairseq-generate, or an extraction's references.

    fairseq-generate writes unknown words of its references as ``<<unk>>``: the text itself is the better reference.
    """
    if Path(path).suffix in SUFFIXES:
        return _from_records(path, reference=True)
    lines = read_lines(path)
    if any(line.startswith("H-") and _HYPOTHESIS.match(line) for line in lines):
        matches = (_REFERENCE.match(line) for line in lines if line.startswith("T-"))
        found = {int(match[1]): match[2] for match in matches if match is not None}
        if not found:
            raise OptionError(f"{path}: output of fairseq-generate without references (lines T-0, T-1, ...)")
        lines = _in_order(path, found, "T")
    return list(join_subwords(lines, subwords_of(lines)[0])) if remove_bpe else lines


def read_systems(specs: Sequence[str], remove_bpe: bool = False) -> Dict[str, List[str]]:
    """Outputs of several systems, {label: lines}, in the order given.

    Each is ``FILE`` or ``LABEL=FILE``. A file without label is called by its name without suffix (extracted attention:
    by the system's name in it), by its folder's name where files of several folders have the same name, or else by its
    path.

    Raises ``OptionError`` as :func:`read_output` does, and where two have the same label.
    """
    pairs = [split_label(spec) for spec in specs]
    labels = _labels(pairs)
    return {label: read_output(path, remove_bpe) for label, (_, path) in zip(labels, pairs)}


def unknown_in_reference(words: str) -> str:
    """A word that a model does not know is none that it can be right about: as in fairseq, it becomes ``<<unk>>``."""
    return words.replace("<unk>", "<<unk>>")


def split_label(spec: str) -> Tuple[Optional[str], Path]:
    """As ``records.label_and_path``, the path as such."""
    label, path = label_and_path(spec)
    return label, Path(path)


def check_lengths(named: Mapping[str, Sequence[str]]) -> None:
    """Raises ``OptionError``, naming two of the files, unless all have equally many sentences."""
    (first, lines), *others = named.items()
    for name, other in others:
        if len(other) != len(lines):
            raise OptionError(
                f"{name}: has {len(other)} sentences, {first} has {len(lines)}; they must be of the same corpus"
            )


def subwords_of(lines: Iterable[str]) -> Tuple[str, str]:
    """How words were split, ``bpe``, ``sentencepiece`` or ``none``, and the token that shows it."""
    for line in lines:
        if BPE_MARK in line or PIECE_MARK in line:
            for token in line.split():
                if token.startswith(PIECE_MARK):
                    return "sentencepiece", token
                if token.endswith(BPE_MARK) and token != BPE_MARK:
                    return "bpe", token
    return "none", ""


def check_tokenisation(named: Mapping[str, Collection[str]]) -> None:
    """Raises ``OptionError`` where some of the texts have subwords and others words, {name: lines}.

    A text without any word fits to everything.
    """
    kinds = {name: subwords_of(lines) for name, lines in named.items() if any(line.strip() for line in lines)}
    for name, (kind, token) in kinds.items():
        for other, (others_kind, _) in kinds.items():
            if token and others_kind != kind:
                raise OptionError(
                    f"{name}: has subwords ({token}), {other} has {'none' if others_kind == 'none' else 'others'}; "
                    "--remove-bpe joins them to words"
                )


def join_subwords(lines: Iterable[str], subwords: str) -> Iterator[str]:
    """Lines of words from lines of pieces; ``subwords`` is what :func:`subwords_of` says of them."""
    return (" ".join(spell(line.split(), subwords)) for line in lines)


def _labels(pairs: Sequence[Tuple[Optional[str], Path]]) -> List[str]:
    schemes: List[Callable[[Path], str]] = [
        lambda path: open_records(path).label if path.suffix in SUFFIXES else path.stem,
        lambda path: path.absolute().parent.name,
        str,
    ]
    labels: List[str] = []
    for scheme in schemes:
        labels = [scheme(path) if label is None else label for label, path in pairs]
        if len(set(labels)) == len(labels):
            return labels
    twice = next(label for label in labels if labels.count(label) > 1)
    raise OptionError(f"{twice}: {labels.count(twice)} files have this name; give each one of its own, NAME=FILE")


def _in_order(path: PathLike, found: Mapping[int, str], kind: str) -> List[str]:
    if len(found) != max(found) + 1:
        missing = next(number for number in range(len(found)) if number not in found)
        raise OptionError(
            f"{path}: sentence {missing} has no line {kind}-{missing}; fairseq-generate did not end, or left sentences "
            "out (with --user-dir fairseq_attn_plugin it keeps those of the last batch)"
        )
    return [found[number] for number in range(len(found))]


def _from_records(path: PathLike, reference: bool) -> List[str]:
    records = open_records(path)
    of_references = records.header.target == "reference"
    if of_references and not reference:
        raise OptionError(
            f"{path}: holds attention to the references, no translations; extract with beam search, or give the output "
            "of fairseq-generate"
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
    sentences = max(records.header.sentences, max(found, default=-1) + 1)
    if len(found) < sentences:
        if reference:
            raise OptionError(
                f"{path}: has references of {len(found)} of its {sentences} sentences only; give their text"
            )
        sys.stderr.write(
            f"{path}: {sentences - len(found)} of {sentences} sentences were not extracted and count as empty\n"
        )
    return [found.get(number, "") for number in range(sentences)]
