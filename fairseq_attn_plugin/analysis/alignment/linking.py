"""Hard word alignments from extracted attention, of one direction or of both.

    attn-analysis align soft.jsonl --out soft.align
    attn-analysis align de-en.jsonl --reverse en-de.jsonl --symmetrize intersection --out both.align

A link is a pair (i, j): source word i and target word j, counted from 0. In Python::

    links = align(open_records("soft.jsonl"), Linking(end="exclude"))      # a set for each sentence of the corpus
"""

from __future__ import annotations

import argparse
from typing import FrozenSet, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.alignment.symmetrize import symmetrize
from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.analysis.records.pairing import check_same, meet
from fairseq_attn_plugin.analysis.records.record import DIGITS, Record
from fairseq_attn_plugin.errors import OptionError

__all__ = ["Linking", "add_linking_options", "align", "align_both", "describe", "linking_of", "record_links"]


METHODS = ("argmax", "threshold")
ENDS = ("exclude", "null")
LEVELS = ("words", "subwords")
THRESHOLD = 0.3
_JOINED = "grow-diag-final-and"


class Linking(NamedTuple):
    """How attention becomes links.

    method: ``argmax``, each target word is linked to the source word of greatest weight, the first one if several tie;
        ``threshold``, it is linked to all source words whose weight is at least ``threshold``
    end: of argmax: ``exclude``, the end of the source does not count, and every word has a link; ``null``, a target
        word whose weight is greatest on the end has no link, which is how a model may say that the word stands for none
        of the source
    weights: which of the matrices; None is ``attention``, or the first one of a file without it
    level: ``words``, weights are summed over the pieces of a source word and averaged over those of a target word;
        ``subwords``, links are between pieces
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


def units(record: Record, level: str = "words") -> Tuple[List[str], List[str]]:
    """Source and target of a record, in words or in subwords."""
    if level == "words":
        return record.source_words, record.target_words
    return record.source, record.target


def check_number(record: Record, records: Records) -> int:
    """The record's number; raises ``OptionError`` if the corpus has no such sentence."""
    if not 0 <= record.id < records.header.sentences:
        raise OptionError(
            f"{records.path}: has a sentence {record.id}, its corpus {records.header.sentences}, counted from 0"
        )
    return record.id


def weights_name(records: Records, name: Optional[str] = None) -> str:
    """``name``, or what it is where it is None; raises ``OptionError`` if the file has no such matrices."""
    known = records.header.weights
    if name is None:
        return "attention" if "attention" in known else known[0]
    if name not in known:
        raise OptionError(f"--weights {name}: {records.path} has {', '.join(known)}")
    return name


def record_links(record: Record, linking: Linking = BY_ARGMAX) -> FrozenSet[Link]:
    """The links of one sentence; neither end of a sentence has any."""
    name = linking.weights or "attention"
    if linking.level == "words":
        weights = record.word_attention(name, end=True)
    else:
        weights = record.weights[name].astype(float)
    weights = weights[:-1]
    columns = weights.shape[1] - 1
    if linking.method == "threshold":
        # a file has so many digits: a weight that is there 0.3 is at least 0.3
        rows, found = np.nonzero(weights[:, :columns] >= linking.threshold - 0.5 * 10**-DIGITS)
        return frozenset(zip(found.tolist(), rows.tolist()))
    links = hard_alignment(weights if linking.end == "null" else weights[:, :columns])
    return frozenset(link for link in links if link[0] < columns)


def align(records: Records, linking: Linking = BY_ARGMAX) -> List[Optional[FrozenSet[Link]]]:
    """The links of every sentence of the corpus, None for one that is not in the file.

    Raises ``OptionError`` as reading does, and for matrices that the file does not have.
    """
    result: List[Optional[FrozenSet[Link]]] = [None] * records.header.sentences
    for number, linked in _linked(records, linking):
        result[number] = linked.links
    return result


def align_both(
    forward: Records, backward: Records, linking: Linking = BY_ARGMAX, method: str = _JOINED
) -> List[Optional[FrozenSet[Link]]]:
    """As :func:`align`, from records of both directions of translation, joined by ``method``.

    Args:
        forward: records of a model from source to target
        backward: of one from target to source; its source is the target of ``forward``, and the other way round
        linking: for both
        method: one of ``SYMMETRIZATIONS``

    Returns:
        links (source, target) of ``forward``; None for a sentence that is not in both files

    Raises:
        OptionError: the two are not of opposite directions, or not of the same sentence pairs
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
    linking = linking._replace(weights=weights_name(records, linking.weights))
    total = records.header.sentences
    for record in tqdm(records, desc=records.label, total=total, unit=" sentences", disable=None):
        links = record_links(record, linking)
        yield check_number(record, records), _Linked(*units(record, linking.level), links)


def _check_directions(forward: Records, backward: Records) -> None:
    one, other = forward.header, backward.header
    if (one.source_lang, one.target_lang) != (other.target_lang, other.source_lang):
        raise OptionError(
            f"--reverse {backward.path}: is {other.source_lang}-{other.target_lang}, must be "
            f"{one.target_lang}-{one.source_lang}, the direction against that of {forward.path}"
        )
    if one.sentences != other.sentences:
        raise OptionError(
            f"--reverse {backward.path}: is of a corpus of {other.sentences} sentences, {forward.path} of one of "
            f"{one.sentences}"
        )


def add_linking_options(parser: argparse.ArgumentParser) -> None:
    """What :func:`linking_of` wants to know."""
    parser.add_argument(
        "--method",
        choices=METHODS,
        default="argmax",
        help="argmax (default): a target word's source word of greatest weight; threshold: all of enough weight",
    )
    parser.add_argument(
        "--threshold", type=float, metavar="X", help=f"with --method threshold: the least weight (default: {THRESHOLD})"
    )
    parser.add_argument(
        "--end",
        choices=ENDS,
        help="of argmax: the end of the source does not count and every target word has a link (exclude, the default), "
        "or a word whose weight is greatest on the end has none (null)",
    )
    parser.add_argument("--weights", metavar="NAME", help="of latent models also posterior, bayes (default: attention)")
    parser.add_argument("--level", choices=LEVELS, default="words", help="links between these (default: words)")


def linking_of(args: argparse.Namespace) -> Linking:
    """Raises ``OptionError`` for options that do not go together."""
    if args.method != "threshold" and args.threshold is not None:
        raise OptionError(f"--threshold {args.threshold}: is used by --method threshold only")
    if args.method == "threshold" and args.end is not None:
        raise OptionError(f"--end {args.end}: is used by --method argmax only; no threshold is asked of the end")
    threshold = THRESHOLD if args.threshold is None else args.threshold
    if not threshold > 0:  # nor is nan
        raise OptionError(f"--threshold {threshold}: must be above 0")
    return Linking(args.method, threshold, args.end or "exclude", args.weights, args.level)


def describe(linking: Linking) -> str:
    """What was done, for the foot of a table."""
    if linking.method == "threshold":
        return f"{linking.level} are linked where the weight is at least {linking.threshold:g}"
    ends = {
        "null": "or to none where that is the end of the source (--end null)",
        "exclude": "the end of the source left aside (--end exclude)",
    }
    return f"each of the target's {linking.level} is linked to the one of greatest weight, {ends[linking.end]}"


def hard_alignment(weights: np.ndarray) -> Set[Link]:
    """For each target word its source word of greatest weight, the first one if several tie.

    ``weights`` [T, N] are over words, without end of sentence (see ``merge_attention``).
    """
    weights = np.asarray(weights)
    if weights.size == 0:
        return set()
    return {(int(source), target) for target, source in enumerate(weights.argmax(axis=1))}
