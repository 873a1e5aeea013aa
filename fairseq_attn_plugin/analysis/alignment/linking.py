"""Derives hard word alignments from extracted attention, of one translation direction or of both.

A link is a pair (i, j) of source word i and target word j, counted from 0.

    from fairseq_attn_plugin.analysis.alignment.linking import Linking, align
    from fairseq_attn_plugin.analysis.records import open_records

    links = align(open_records("soft.jsonl"), Linking(end="exclude"))      # a set for each sentence of the corpus
"""

from __future__ import annotations

import argparse
from typing import FrozenSet, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.alignment.symmetrize import DEFAULT_SYMMETRIZATION, symmetrize
from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.analysis.records.pairing import check_same, meet
from fairseq_attn_plugin.analysis.records.record import DIGITS, LEVELS, Record
from fairseq_attn_plugin.errors import OptionError

__all__ = [
    "Linking",
    "add_linking_options",
    "align",
    "align_both",
    "describe_linking",
    "hard_alignment",
    "linking_of",
    "record_links",
]


METHODS = ("argmax", "threshold")
ENDS = ("exclude", "null")
THRESHOLD = 0.3


class Linking(NamedTuple):
    """The rule that turns attention into links.

    method: ``argmax`` links each target word to the source word of greatest weight, the first one of several that tie;
        ``threshold`` links it to all source words with a weight of at least ``threshold``
    end: for argmax: ``exclude`` ignores the end of the source, so that every target word has a link; ``null`` leaves a
        target word without a link if its weight is greatest on the end of the source, which is how a model can express
        that the word has no counterpart
    weights: name of the matrices; None is ``attention``, or the first matrix of a file without it
    level: ``words`` sums weights over the subwords of a source word and averages them over those of a target word;
        ``subwords`` links subwords
    """

    method: str = "argmax"
    threshold: float = THRESHOLD
    end: str = "exclude"
    weights: Optional[str] = None
    level: str = "words"


BY_ARGMAX = Linking()


class _Linked(NamedTuple):
    """A sentence pair without its matrices."""

    source: List[str]
    target: List[str]
    links: FrozenSet[Link]


def record_links(record: Record, linking: Linking = BY_ARGMAX) -> FrozenSet[Link]:
    """The links of one sentence. The sentence ends have none."""
    weights = record.unit_attention(linking.level, linking.weights or "attention", end=True)[:-1]
    columns = weights.shape[1] - 1
    if linking.method == "threshold":
        # a file rounds to DIGITS decimals: a weight that it gives as 0.3 counts as at least 0.3
        rows, found = np.nonzero(weights[:, :columns] >= linking.threshold - 0.5 * 10**-DIGITS)
        return frozenset(zip(found.tolist(), rows.tolist()))
    links = hard_alignment(weights if linking.end == "null" else weights[:, :columns])
    return frozenset(link for link in links if link[0] < columns)


def hard_alignment(weights: np.ndarray) -> Set[Link]:
    """Links each target word to its source word of greatest weight, the first one of several that tie.

    ``weights`` is ``[T, N]`` over words, without sentence ends
    (see :func:`~fairseq_attn_plugin.analysis.records.merging.merge_attention`).
    """
    weights = np.asarray(weights)
    if weights.size == 0:
        return set()
    return {(int(source), target) for target, source in enumerate(weights.argmax(axis=1))}


def align(records: Records, linking: Linking = BY_ARGMAX) -> List[Optional[FrozenSet[Link]]]:
    """The links of every sentence of the corpus; None for a sentence that the file lacks.

    Raises ``OptionError`` as reading does, and if the file lacks the matrices that ``linking`` names.
    """
    result: List[Optional[FrozenSet[Link]]] = [None] * records.header.sentences
    for number, linked in _linked(records, linking):
        result[number] = linked.links
    return result


def align_both(
    forward: Records, backward: Records, linking: Linking = BY_ARGMAX, method: str = DEFAULT_SYMMETRIZATION
) -> List[Optional[FrozenSet[Link]]]:
    """The links of records of both translation directions, joined by ``method``.

    Args:
        forward: records of a model from source to target
        backward: records of a model from target to source; its source is the target of ``forward`` and vice versa
        linking: for both
        method: one of ``SYMMETRIZATIONS``

    Returns:
        links (source, target) of ``forward`` for every sentence of the corpus; None for a sentence that one file lacks

    Raises:
        OptionError: the files do not have opposite directions or the same sentence pairs
    """
    _check_directions(forward, backward)
    result: List[Optional[FrozenSet[Link]]] = [None] * forward.header.sentences
    for number, one, other in meet(_linked(forward, linking), _linked(backward, linking)):
        names = (str(forward.path), str(backward.path))
        check_same(number, "source", (names[0], one.source), (f"--reverse {names[1]}", other.target))
        check_same(number, "target", (names[0], one.target), (f"--reverse {names[1]}", other.source))
        result[number] = symmetrize(one.links, ((j, i) for i, j in other.links), method)
    return result


def _linked(records: Records, linking: Linking) -> Iterator[Tuple[int, _Linked]]:
    linking = linking._replace(weights=records.weights_name(linking.weights))
    total = records.header.sentences
    for record in tqdm(records, desc=records.label, total=total, unit=" sentences", disable=None):
        source, target = record.units(linking.level)
        yield record.id, _Linked(source, target, record_links(record, linking))


def _check_directions(forward: Records, backward: Records) -> None:
    one, other = forward.header, backward.header
    if (one.source_lang, one.target_lang) != (other.target_lang, other.source_lang):
        raise OptionError(
            f"--reverse {backward.path}: translates {other.source_lang}-{other.target_lang}, must translate "
            f"{one.target_lang}-{one.source_lang}, the opposite direction of {forward.path}"
        )
    if one.sentences != other.sentences:
        raise OptionError(
            f"--reverse {backward.path}: has a corpus of {other.sentences} sentences, {forward.path} has one of "
            f"{one.sentences}"
        )


def add_linking_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that :func:`linking_of` reads."""
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="argmax",
        help="argmax (default): link a target word to the source word of greatest weight; threshold: to all source "
        "words of sufficient weight",
    )
    parser.add_argument(
        "--threshold", type=float, metavar="X", help=f"smallest weight for --method threshold (default: {THRESHOLD})"
    )
    parser.add_argument(
        "--end",
        choices=ENDS,
        help="for argmax: exclude (default) ignores the end of the source, so that every target word has a link; null "
        "leaves a word without a link if its weight is greatest on the end",
    )
    parser.add_argument(
        "--weights", metavar="NAME", help="matrix to use; latent models also have posterior, bayes (default: attention)"
    )
    parser.add_argument("--level", choices=LEVELS, default="words", help="units that are linked (default: words)")


def linking_of(args: argparse.Namespace) -> Linking:
    """The rule that the options describe; raises ``OptionError`` if they contradict each other."""
    if args.method != "threshold" and args.threshold is not None:
        raise OptionError(f"--threshold {args.threshold}: needs --method threshold")
    if args.method == "threshold" and args.end is not None:
        raise OptionError(f"--end {args.end}: needs --method argmax; a threshold always ignores the end")
    threshold = THRESHOLD if args.threshold is None else args.threshold
    if not threshold > 0:  # this also refuses nan
        raise OptionError(f"--threshold {threshold}: must be above 0")
    return Linking(args.method, threshold, args.end or "exclude", args.weights, args.level)


def describe_linking(linking: Linking) -> str:
    """The rule in words, for the text below a table."""
    if linking.method == "threshold":
        return f"{linking.level} with a weight of at least {linking.threshold:g} are linked"
    ends = {
        "null": "a target unit whose weight is greatest on the end of the source has no link (--end null)",
        "exclude": "the end of the source is ignored (--end exclude)",
    }
    return f"target {linking.level} are linked to the source {linking.level} of greatest weight; {ends[linking.end]}"
