"""Chooses sentences of extracted attention, and makes a heatmap panel of each matrix.

A sentence has one panel for each file. A latent alignment model has one for its prior and one for its posterior.
:mod:`.heatmaps` draws the panels::

    panels = [panel_of(system.find([5])[5], label=system.label) for system in open_systems(["soft.jsonl", "adm.jsonl"])]
    heatmaps(panels, "figure.pdf")
"""

from itertools import islice
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import GoldAlignment, Link, check_links
from fairseq_attn_plugin.analysis.alignment.subword_links import to_subwords
from fairseq_attn_plugin.analysis.drawing.heatmaps import Panel
from fairseq_attn_plugin.analysis.records.files import Records, check_same
from fairseq_attn_plugin.analysis.records.record import Record, shown_units
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import words_of

END = "</s>"
FIRST = 10
_BLOCK = 200  # sentences in memory at a time
# what a latent alignment model calls its matrices
_LATENT = {"attention": "prior", "bayes": "exact posterior"}


Length = Tuple[int, float]  # the least and the greatest number of source words


class Chosen(NamedTuple):
    """A sentence, and its record in each of the files."""

    number: int
    records: List[Record]


def choose_sentences(
    systems: Sequence[Records],
    numbers: Optional[Sequence[int]] = None,
    first: int = FIRST,
    length: Optional[Length] = None,
) -> Iterator[Chosen]:
    """Sentences that all files contain. A few hundred are in memory at a time.

    Args:
        systems: the files
        numbers: numbers of the sentences, in this order (default: those of ``first``)
        first: how many sentences, from the start of the first file
        length: of their sources, in words

    Raises:
        OptionError: a file lacks one of ``numbers``, or the files differ in the words of a source
    """
    least, most = length or (0, float("inf"))
    wanted: Iterator[int] = (one.id for one in systems[0] if least <= len(one.source_words) <= most)
    missing = first
    if numbers is not None:
        wanted, missing = iter(dict.fromkeys(numbers)), len(numbers)
    while block := list(islice(wanted, min(missing, _BLOCK))):
        found = [system.find(block) for system in systems]
        for number in block:
            for system, records in zip(systems, found):
                if numbers is not None and number not in records:
                    raise OptionError(
                        f"--sentences {number}: is not in {system.path}; its corpus has {system.header.sentences} "
                        "sentences, counted from 0, and those too long for the model are left out"
                    )
            if all(number in records for records in found):
                chosen = Chosen(number, [records[number] for records in found])
                sources = [(str(one.path), record.source_words) for one, record in zip(systems, chosen.records)]
                for source in sources[1:]:
                    check_same(number, "source", sources[0], source)
                missing -= 1
                yield chosen


def weights_of(systems: Sequence[Records], names: Optional[Sequence[str]] = None) -> List[List[str]]:
    """The names of the matrices to draw for each file: those of ``names`` that it has, or the default.

    The default is ``attention``, and for a latent alignment model also its posterior: that of the inference network if
    there is one, else the exact posterior. Raises ``OptionError`` for a name that no file has, and for a file that has
    none of the names.
    """
    chosen = []
    for system in systems:
        known = system.header.weights
        if names is None:
            posterior = [name for name in ("posterior", "bayes") if name in known][:1]
            chosen.append([system.weights_name(), *posterior])
        else:
            chosen.append([name for name in names if name in known] or [system.weights_name(names[0])])
    for name in names or ():
        if not any(name in some for some in chosen):
            raise OptionError(f"--weights {name}: is in none of the files")
    return chosen


def panel_of(
    record: Record,
    name: str = "attention",
    label: str = "",
    subwords: bool = False,
    end: bool = False,
    gold: Optional[GoldAlignment] = None,
    normalize: bool = False,
) -> Panel:
    """A panel of :func:`.heatmaps` for one matrix of a record; ``gold`` links words.

    ``subwords`` become rows and columns in place of words, ``end`` adds the ends of both sentences, and ``normalize``
    divides every row by its sum.
    """
    level = "subwords" if subwords else "words"
    source, target = shown_units(record, level)
    weights = record.unit_attention(level, name, end)
    if normalize:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total > 0, total, 1)
    ends = [END] if end else []
    sure: Iterable[Link] = gold.sure if gold else ()
    possible: Iterable[Link] = gold.possible if gold else ()
    if subwords:
        words = (words_of(record.source, record.subwords), words_of(record.target, record.subwords))
        sure, possible = (to_subwords(links, *words) for links in (sure, possible))
    return Panel(weights, source + ends, target + ends, label, set(sure), set(possible))


def panels_of(
    systems: Sequence[Records],
    chosen: Chosen,
    weights: Sequence[Sequence[str]],
    subwords: bool = False,
    end: bool = False,
    gold: Optional[GoldAlignment] = None,
    normalize: bool = False,
    first: int = 0,
) -> List[Panel]:
    """The panels of one sentence: for each file one panel for each of its ``weights``; see :func:`panel_of`.

    Gold links connect a source and its reference. A model's own translation has them only if it equals the reference.
    Raises ``ValueError`` for a link to a word that the sentence does not have; its message counts from ``first``.
    """
    panels = []
    for system, record, names in zip(systems, chosen.records, weights):
        forced = system.header.target == "reference"
        links = gold if forced or (record.reference or "").split() == record.target_words else None
        if links is not None:
            check_links(links.possible, (len(record.source_words), len(record.target_words)), first)
        latent = not {"posterior", "bayes"}.isdisjoint(record.weights)
        for name in names:
            shown = _LATENT.get(name, name) if latent else name
            label = f"{system.label}: {shown}" if len(names) > 1 or shown != "attention" else system.label
            panels.append(panel_of(record, name, label, subwords, end, links, normalize))
    return panels
