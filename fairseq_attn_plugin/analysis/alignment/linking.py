"""Derives hard word alignments from extracted attention, of one translation direction or of both.

A link is a pair (i, j) of source word i and target word j, counted from 0. :data:`METHODS` says which matrix is read:

    attention   the weights a_t of the step that predicts y_t
    shift       a_{t+1}, of the step that reads y_t (Chen et al. 2020, "Accurate Word Alignment Induction from Neural
                Machine Translation", Shift-Att)
    others      matrices that :mod:`fairseq_attn_plugin.analysis.inference.attributions` computes with the model

    links = align(open_records("soft.jsonl"), Linking(end="exclude"))      # a set for each sentence of the corpus

An aligner of one direction links each target word to one source word; one of the opposite direction links each source
word to one target word. :func:`symmetrize` joins both (Och and Ney 2003; Koehn, Och and Marcu 2003): the intersection
is more precise, the union covers more words.
"""

import argparse
from dataclasses import replace
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.records.files import Records, check_same, meet
from fairseq_attn_plugin.analysis.records.record import LEVELS, Record
from fairseq_attn_plugin.errors import OptionError

# method -> the matrix that it reads, in the records or by the model; None: the attention
METHODS: Dict[str, Optional[str]] = {
    "attention": None,
    "shift": None,
    "posterior": "bayes",
    "saliency": "saliency",
    "loo": "loo",
}


class Linking(NamedTuple):
    """The rule that turns attention into links: of each target word, to the source word of greatest weight.

    end: ``exclude`` ignores the end of the source, so that every target word with a weight elsewhere has a link;
        ``null`` leaves a target word without a link if its weight is greatest on the end
    weights: name of the matrices; None is ``attention``, or the first matrix of a file without it
    level: ``words`` sums weights over the subwords of a source word and averages them over those of a target word;
        ``subwords`` links subwords
    shift: read the row of the next subword for each subword
    """

    end: str = "exclude"
    weights: Optional[str] = None
    level: str = "words"
    shift: bool = False


BY_ARGMAX = Linking()


class _Linked(NamedTuple):
    """A sentence pair without its matrices."""

    source: List[str]
    target: List[str]
    links: FrozenSet[Link]


def record_links(record: Record, linking: Linking = BY_ARGMAX) -> FrozenSet[Link]:
    """The links of one sentence. The sentence ends have none."""
    name = linking.weights or "attention"
    if linking.shift:
        rows = record.weights[name]
        record = replace(record, weights={name: np.concatenate([rows[1:], rows[-1:]])})
    weights = record.unit_attention(linking.level, name, end=True)[:-1]
    columns = weights.shape[1] - 1
    links = hard_alignment(weights if linking.end == "null" else weights[:, :columns])
    return frozenset(link for link in links if link[0] < columns)


def hard_alignment(weights: np.ndarray) -> Set[Link]:
    """Links each target word to its source word of greatest weight, the first one of several that tie.

    ``weights`` is ``[T, N]`` over words, without sentence ends. A target word without any weight has no link.
    """
    if weights.size == 0:
        return set()
    best = weights.argmax(axis=1)
    return {(int(source), target) for target, source in enumerate(best) if weights[target, source] > 0}


def align(records: Records, linking: Linking = BY_ARGMAX) -> List[Optional[FrozenSet[Link]]]:
    """The links of every sentence of the corpus; None for a sentence that the file lacks.

    Raises ``OptionError`` as reading does, and if the file lacks the matrices that ``linking`` names.
    """
    result: List[Optional[FrozenSet[Link]]] = [None] * records.header.sentences
    for number, linked in linked_sentences(records, linking):
        result[number] = linked.links
    return result


_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: FrozenSet[Link], backward: FrozenSet[Link]) -> FrozenSet[Link]:
    """grow-diag-final-and of Koehn et al.

    The result starts as the intersection. grow-diag adds a link of the union if it is a neighbour of a link in the
    result, horizontally, vertically or diagonally, and if one of its two words has no link yet. final-and then adds the
    links of ``forward``, after them those of ``backward``, whose two words both have no link yet.
    """
    links: Set[Link] = set(forward & backward)
    either, grown = forward | backward, True
    # target words in the outer loop, as in Koehn's pseudo-code: some results depend on the order
    union = sorted(either, key=lambda link: (link[1], link[0]))
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    while grown:
        grown = False
        for i, j in union:
            if (i, j) not in links:
                continue
            for down, right in _NEIGHBOURS:
                new = (i + down, j + right)
                if new in either and new not in links and (new[0] not in sources or new[1] not in targets):
                    add(new)
                    grown = True
    for direction in (forward, backward):
        for link in sorted(direction, key=lambda link: (link[1], link[0])):
            if link[0] not in sources and link[1] not in targets:
                add(link)
    return frozenset(links)


_METHODS: Dict[str, Callable[[FrozenSet[Link], FrozenSet[Link]], FrozenSet[Link]]] = {
    "intersection": lambda forward, backward: forward & backward,
    "union": lambda forward, backward: forward | backward,
    "grow-diag-final-and": grow_diag_final_and,
}
SYMMETRIZATIONS = tuple(_METHODS)
DEFAULT_SYMMETRIZATION = "grow-diag-final-and"


def symmetrize(forward: Iterable[Link], backward: Iterable[Link], method: str) -> FrozenSet[Link]:
    """Joins the links of both directions by ``method``, one of ``SYMMETRIZATIONS``; all links are (source, target)."""
    return _METHODS[method](frozenset(forward), frozenset(backward))


def align_both(
    forward: Records,
    backward: Records,
    linking: Linking = BY_ARGMAX,
    method: str = DEFAULT_SYMMETRIZATION,
) -> List[Optional[FrozenSet[Link]]]:
    """The links of records of both translation directions, joined by ``method``.

    Args:
        forward: records of a model from source to target
        backward: records of a model from target to source; its source is the target of ``forward`` and vice versa
        linking, method: of both directions; the method is one of ``SYMMETRIZATIONS``

    Returns:
        links (source, target) of ``forward`` for every sentence of the corpus; None for a sentence that one file lacks

    Raises:
        OptionError: the files do not have opposite directions or the same sentence pairs
    """
    names = (str(forward.path), f"--reverse {backward.path}")
    here, there = ((one.header.source_lang, one.header.target_lang) for one in (forward, backward))
    if there != here[::-1]:
        raise OptionError(
            f"{names[1]}: translates {'-'.join(there)}, must translate {'-'.join(here[::-1])}, the opposite direction "
            f"of {names[0]}"
        )
    sizes = forward.header.sentences, backward.header.sentences
    if sizes[0] != sizes[1]:
        raise OptionError(f"{names[1]}: has a corpus of {sizes[1]} sentences, {names[0]} has one of {sizes[0]}")
    result: List[Optional[FrozenSet[Link]]] = [None] * forward.header.sentences
    for number, one, other in meet(linked_sentences(forward, linking), linked_sentences(backward, linking)):
        check_same(number, "source", (names[0], one.source), (names[1], other.target))
        check_same(number, "target", (names[0], one.target), (names[1], other.source))
        result[number] = symmetrize(one.links, ((j, i) for i, j in other.links), method)
    return result


def linked_sentences(records: Records, linking: Linking) -> Iterator[Tuple[int, _Linked]]:
    """Yields the number of each sentence, its units and their links."""
    linking = linking._replace(weights=records.weights_name(linking.weights))
    total = records.header.sentences
    for record in tqdm(records, desc=records.label, total=total, unit=" sentences", disable=None):
        source, target = record.units(linking.level)
        yield record.id, _Linked(source, target, record_links(record, linking))


def add_linking_options(parser: Any) -> None:
    """Adds the options that :func:`linking_of` reads."""
    parser.add_argument(
        "--method",
        choices=list(METHODS),
        default="attention",
        help="matrix that is read: attention (default); shift: the weights of the next step, which reads the word; "
        "posterior: p(z | x, y), proportional to the weight times the probability of the word from one encoding alone; "
        "saliency: gradients averaged over noise (SmoothGrad); loo: each source word left out",
    )
    parser.add_argument(
        "--end",
        choices=("exclude", "null"),
        default="exclude",
        help="exclude (default) ignores the end of the source, so that every target word has a link; null leaves a "
        "word without a link if its weight is greatest on the end",
    )
    parser.add_argument(
        "--weights", metavar="NAME", help="matrix to use; latent models also have posterior, bayes (default: attention)"
    )
    parser.add_argument("--level", choices=LEVELS, default="words", help="units that are linked (default: words)")


def linking_of(args: argparse.Namespace) -> Linking:
    """The rule that the options describe; raises ``OptionError`` if they contradict each other."""
    method, matrix = args.method, METHODS[args.method]
    if matrix is not None and args.weights not in (None, matrix):
        raise OptionError(f"--weights {args.weights}: --method {method} reads the matrix {matrix}; leave one out")
    return Linking(args.end, matrix or args.weights, args.level, method == "shift")


def describe_linking(linking: Linking) -> str:
    """The rule in words, for the text below a table."""
    matrix = f" of the matrix {linking.weights}" if linking.weights else ""
    matrix += ", of the next step" if linking.shift else ""
    end = "the end of the source is ignored (--end exclude)"
    if linking.end == "null":
        end = "a target unit whose weight is greatest on the end of the source has no link (--end null)"
    return f"target {linking.level} are linked to the source {linking.level} of greatest weight{matrix}; {end}"
