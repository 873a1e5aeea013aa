"""Reads and writes translation lexicons P(e | f), with e a target word and f a source word (or subwords).

Each line of a file is an entry, in one of two formats:

    source TAB target TAB probability TAB count     for ``fairseq-train --lexicon``; the count is optional
    source target                                   for ``fairseq-generate --replace-unk``; one line for each source
"""

from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, TextIO, Tuple

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import numbered_lines

LARGEST_SUM = 1.01  # of rounded probabilities


class Entry(NamedTuple):
    """A translation of a source word."""

    target: str
    probability: float  # P(e | f)
    times: float = 0.0  # count of the pair


def read_lexicon(path: Any, option: str, probabilities: bool = False, sums: bool = True) -> Dict[str, List[Entry]]:
    """Reads a file of either format.

    Args:
        path: the file
        option: the option that names it, for messages
        probabilities: refuse entries without a probability; otherwise the probability of an entry without one is 1
        sums: with ``probabilities``, refuse sources whose probabilities sum to more than 1

    Returns:
        {source: translations, the most probable first}

    Raises:
        OptionError: the file cannot be read, has no entry, has a malformed line, has two entries with different
            probabilities for a pair (the message names the line), or the probabilities of a word sum to more than 1
    """
    found: Dict[str, Dict[str, Entry]] = {}
    for where, line in numbered_lines(path, name=f"{option} {path}"):
        if not line.strip():
            continue
        source, entry = _parse(line, where, probabilities)
        entries = found.setdefault(source, {})
        if entry.target in entries and entry.probability != entries[entry.target].probability:
            raise OptionError(f"{where}: {source} {entry.target} occurs twice, with different probabilities")
        entries[entry.target] = entry
    if not found:
        raise OptionError(f"{option} {path}: has no entries; create it with fairseq-attn lexicon")
    for source, entries in found.items():
        total = sum(entry.probability for entry in entries.values())
        if probabilities and sums and total > LARGEST_SUM:
            raise OptionError(
                f"{option} {path}: the probabilities of the translations of {source} sum to {total:.4g}, must sum to "
                "at most 1: P(target | source)"
            )
    return {source: sorted(entries.values(), key=lambda entry: -entry.probability) for source, entries in found.items()}


def _parse(line: str, where: str, probabilities: bool) -> Tuple[str, Entry]:
    # a word may contain other blanks, such as U+00A0
    fields = line.split("\t") if "\t" in line else line.split()
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
        expected = "source, target, probability from 0 to 1, and count, separated by tabs"
        if not probabilities:
            expected = f"source and target, or {expected}"
        raise OptionError(f"{where}: must be an entry of a lexicon: {expected}") from None


def write_probabilities(stream: TextIO, lexicon: Mapping[str, Iterable[Entry]]) -> None:
    """Writes the format with probabilities, in the order of the mapping."""
    for source, entries in lexicon.items():
        for target, probability, times in entries:
            stream.write(f"{source}\t{target}\t{probability:.6g}\t{times:.6g}\n")
