"""Joins the alignments of both translation directions (Och and Ney 2003; Koehn, Och and Marcu 2003).

A link is a pair (i, j) of source word i and target word j. An aligner of one direction links each target word to one
source word; an aligner of the opposite direction links each source word to one target word. The intersection of both
is more precise, the union covers more words.
"""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, Iterable, Set

from fairseq_attn_plugin.analysis.alignment.links import Link

_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: FrozenSet[Link], backward: FrozenSet[Link]) -> FrozenSet[Link]:
    """grow-diag-final-and of Koehn et al.

    The result starts as the intersection. grow-diag adds a link of the union if it is a neighbour of a link in the
    result, horizontally, vertically or diagonally, and if one of its two words has no link yet. final-and then adds the
    links of ``forward``, after them those of ``backward``, whose two words both have no link yet.
    """
    links: Set[Link] = set(forward & backward)
    # target words in the outer loop, as in Koehn's pseudo-code: some results depend on the order
    union = sorted(forward | backward, key=lambda link: (link[1], link[0]))
    sources, targets = {i for i, _ in links}, {j for _, j in links}

    def add(link: Link) -> None:
        links.add(link)
        sources.add(link[0])
        targets.add(link[1])

    either, grown = forward | backward, True
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
