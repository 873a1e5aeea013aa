"""One alignment from those of both directions (Och and Ney 2003; Koehn, Och and Marcu 2003).

A link is a pair (i, j): source word i and target word j. An aligner of one direction links each target word to one
source word, one of the other each source word to one target word; what both say is right more often, what either says
covers more words.
"""

from __future__ import annotations

from typing import Callable, Dict, FrozenSet, Iterable, Set

from fairseq_attn_plugin.analysis.alignment.links import Link

__all__ = ["SYMMETRIZATIONS", "grow_diag_final_and", "symmetrize"]


_NEIGHBOURS = ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1))


def grow_diag_final_and(forward: FrozenSet[Link], backward: FrozenSet[Link]) -> FrozenSet[Link]:
    """grow-diag-final-and of Koehn et al.

    From the intersection: links of the union beside one that is there already, sideways or diagonally, are added as
    long as one of their two words has none (grow-diag); then those of ``forward``, then of ``backward``, of which both
    words have none (final-and).
    """
    links: Set[Link] = set(forward & backward)
    # target words outside, source words inside: the order of Koehn's pseudo-code, on which some results depend
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


def symmetrize(forward: Iterable[Link], backward: Iterable[Link], method: str) -> FrozenSet[Link]:
    """The links of both directions joined by ``method``, one of ``SYMMETRIZATIONS``; both are (source, target)."""
    return _METHODS[method](frozenset(forward), frozenset(backward))
