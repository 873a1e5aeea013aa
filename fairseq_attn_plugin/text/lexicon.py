"""Translation lexicons P(e | f), as files: e a word of the target, f one of the source (or subwords).

A file has an entry in each line, in one of two forms:

    source TAB target TAB probability TAB count     what ``fairseq-train --lexicon`` reads; the count may be missing
    source target                                   what ``fairseq-generate --replace-unk`` reads, one line per source
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, TextIO, Tuple

from fairseq_attn_plugin.errors import OptionError

__all__ = ["Entry", "best_translations", "read_lexicon", "write_best", "write_probabilities"]


class Entry(NamedTuple):
    """A translation of a source word."""

    target: str
    probability: float  # P(e | f)
    times: float = 0.0  # count of the pair


def read_lexicon(path: Any, option: str, probabilities: bool = False) -> Dict[str, List[Entry]]:
    """{source: its translations, the most probable first}, from a file of either form.

    Args:
        path: the file
        option: the option that names it, for messages
        probabilities: whether lines without a probability are a mistake; otherwise theirs is 1

    Raises:
        OptionError: the file cannot be read or is empty, or a line is no entry, or an entry is there twice
    """
    found: Dict[str, Dict[str, Entry]] = {}
    number = 0
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if not line.strip():
                    continue
                source, entry = _parse(line, f"{option} {path}, line {number}", probabilities)
                entries = found.setdefault(source, {})
                if entry.target in entries and entry.probability != entries[entry.target].probability:
                    raise OptionError(
                        f"{option} {path}, line {number}: {source} {entry.target} is there twice, with another "
                        "probability"
                    )
                entries[entry.target] = entry
    except OSError as error:
        raise OptionError(f"{option} {path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise OptionError(f"{option} {path}: is not UTF-8 after line {number}: {error.reason}") from None
    if not found:
        raise OptionError(f"{option} {path}: has no entries; make it by attn-analysis lexicon")
    return {source: sorted(entries.values(), key=lambda entry: -entry.probability) for source, entries in found.items()}


def _parse(line: str, where: str, probabilities: bool) -> Tuple[str, Entry]:
    # a word may have blanks of other kinds in it, such as U+00A0
    fields = line.rstrip("\r\n").split("\t") if "\t" in line else line.split()
    try:
        if len(fields) == 2 and not probabilities and all(fields):
            return fields[0], Entry(fields[1], 1.0)
        if len(fields) not in (3, 4) or not all(fields):
            raise ValueError
        probability, count = float(fields[2]), float(fields[3]) if len(fields) == 4 else 0.0
        if not 0 <= probability <= 1 or not count >= 0:
            raise ValueError
        return fields[0], Entry(fields[1], probability, count)
    except ValueError:
        expected = "source, target, probability from 0 to 1, and count, with tabs between them"
        if not probabilities:
            expected = f"source and target, or {expected}"
        raise OptionError(f"{where}: is no entry of a lexicon: {expected}") from None


def best_translations(lexicon: Mapping[str, Iterable[Entry]]) -> Dict[str, str]:
    """{source: its most probable translation}, the first of those that are equally probable."""
    return {source: max(entries, key=lambda entry: entry.probability).target for source, entries in lexicon.items()}


def write_probabilities(stream: TextIO, lexicon: Mapping[str, Iterable[Entry]]) -> None:
    """Writes the form with probabilities, in the order of the mapping."""
    for source, entries in lexicon.items():
        for target, probability, times in entries:
            stream.write(f"{source}\t{target}\t{probability:.6g}\t{times:.6g}\n")


def write_best(stream: TextIO, lexicon: Mapping[str, Iterable[Entry]]) -> None:
    """Writes the form of ``--replace-unk``: the most probable translation of each word."""
    for source, target in best_translations(lexicon).items():
        stream.write(f"{source} {target}\n")
