"""Builds the page of ``fairseq-attn explore``: the attention of sentences, without a network.

The one file contains sentences, weights, style and script. Weights are stored in 4095ths of the greatest weight of
their sentence, two characters each. The page joins subwords to words as :meth:`.Record.word_attention` does.
"""

import math
from itertools import groupby, islice
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.pages import frame
from fairseq_attn_plugin.analysis.records.files import Records, check_same, open_systems
from fairseq_attn_plugin.analysis.records.record import Header, Record, shown_units
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.reading import as_typed
from fairseq_attn_plugin.text.subwords import words_of
from fairseq_attn_plugin.text.unknown_words import UNKNOWN
from fairseq_attn_plugin.writing import PathLike, whole_text

FIRST = 1000  # sentences on a page by default: such a page opens at once
_UNSAID = ("checkpoint version",)  # options that do not interest a reader
_LEVELS = 4095  # two digits of base 64
_MORE_THAN_ONE = 1.05  # a row's sum above this is not a rounding error
_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", dtype=np.uint8)


class Explored(NamedTuple):
    """What a page shows, in the form that its script reads, and which sentences it leaves out."""

    data: Dict[str, Any]
    cut: bool  # ``first`` left sentences out
    missing: List[int]  # requested sentences that are in no file


def side(tokens: Sequence[str], subwords: str, words: Sequence[str]) -> Dict[str, Any]:
    """The tokens of one side of a sentence, and, if words differ from tokens, the words and their numbers of tokens."""
    result: Dict[str, Any] = {"tokens": list(tokens)}
    if list(words) != result["tokens"]:
        result.update(words=list(words), pieces=[len(list(same)) for _, same in groupby(words_of(tokens, subwords))])
    return result


def finite(number: float, digits: int) -> Optional[float]:
    """A number for JSON, rounded; None for infinities and NaN, which JSON cannot express."""
    return round(float(number), digits) if math.isfinite(number) else None


def encode(weights: np.ndarray) -> Tuple[float, str]:
    """The greatest of ``weights``, and all weights in 4095ths of it, row by row, two digits of base 64 each.

    The rounding error of a weight is at most 1/8190 of the greatest. NaN and infinities count as 0.
    """
    values = np.nan_to_num(np.asarray(weights, dtype=float), nan=0.0, posinf=0.0, neginf=0.0).clip(min=0.0)
    greatest = float(f"{values.max(initial=0.0):.6g}")
    levels = np.rint(values.ravel() / greatest * _LEVELS).clip(0, _LEVELS) if greatest else np.zeros(values.size)
    codes = levels.astype(np.int64)
    return greatest, _DIGITS[np.stack([codes >> 6, codes & 63], axis=-1)].tobytes().decode("ascii")


def collect(
    systems: Sequence[Records],
    sentences: Optional[Sequence[int]] = None,
    first: int = FIRST,
) -> Explored:
    """The data of the page for some systems. One record is in memory at a time.

    Args:
        systems: extracted from the same corpus; the first one determines the sentences
        sentences: numbers of the sentences (default: those of ``first``)
        first: number of sentences, from the start of the first system's file; 0 for all

    Raises:
        OptionError: systems translate between different languages, or differ in the words of a source; they may differ
            in its subwords and in the words that they do not know
    """
    languages = [(system.header.source_lang, system.header.target_lang) for system in systems]
    for system, pair in zip(systems, languages):
        if pair != languages[0]:
            raise OptionError(
                f"{system.path}: is of {'-'.join(pair)}, {systems[0].path} of {'-'.join(languages[0])}; a page shows "
                "one direction"
            )
    found: Dict[int, Dict[str, Any]] = {}
    cut = heavy = False
    for number, system in enumerate(systems):
        rest: Iterator[Record] = iter(())
        chosen = system.select(found if sentences is None else sentences)
        if sentences is None and number == 0:
            rest = iter(system)
            chosen = islice(rest, first or None)
        for record in tqdm(chosen, desc=system.label, unit=" sentences", disable=None):
            _join(found, record, number, systems)
            sums = [np.nansum(matrix, axis=1, dtype=float).max(initial=0.0) for matrix in record.weights.values()]
            heavy = heavy or bool(max(sums) > _MORE_THAN_ONE)
        cut = cut or next(rest, None) is not None
    order = sorted(found) if sentences is None else [number for number in sentences if number in found]
    headers = [system.header for system in systems]
    total = max(header.sentences for header in headers)
    shown = counted(total, "sentence")
    shown = f"{len(order):,} of {shown}" if len(order) < total else shown
    direction = "\u2009\u2192\u2009".join(languages[0])
    data = {
        "title": f"Attention, {direction}",
        "subtitle": ", ".join(dict.fromkeys(header.split for header in headers)) + f": {shown}",
        "languages": list(languages[0]),
        "subwords": any("words" in one for row in found.values() for one in (*row["sources"], *row["targets"])),
        "unspaced": any(header.unspaced for header in headers),
        "heavy": heavy,  # some rows of weights sum to more than 1
        "models": [_model(system) for system in systems],
        "sentences": [found[number] for number in order],
    }
    missing = [] if sentences is None else [number for number in sentences if number not in found]
    return Explored(data, cut, missing)


def _model(system: Records) -> Dict[str, Any]:
    header: Header = system.header
    options = ", ".join(f"{name} {_said(value)}" for name, value in header.options.items() if name not in _UNSAID)
    return {
        "label": system.label,
        "architecture": header.architecture,
        "checkpoint": header.checkpoint,
        "split": header.split,
        "target": header.target,
        "options": options,
        "weights": list(header.weights),
    }


def _said(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{name}={_said(one)}" for name, one in value.items())
    return " ".join(map(_said, value)) if isinstance(value, (list, tuple)) else str(value)


def _join(found: Dict[int, Dict[str, Any]], record: Record, number: int, systems: Sequence[Records]) -> None:
    """Adds the attention of a system to that of the others in the same sentence."""
    row = found.setdefault(record.id, {"id": record.id, "sources": [], "targets": [], "views": [None] * len(systems)})
    words_of_source, words_of_target = shown_units(record)
    for other, view in zip(systems, row["views"]):
        if view is not None:
            theirs = str(other.path), _words(row["sources"][view["source"]])
            check_same(record.id, "source", theirs, (str(systems[number].path), words_of_source))
    if record.reference is not None:
        row.setdefault("reference", as_typed(record.reference))
    target = side(record.target, record.subwords, words_of_target)
    place = _place(row["targets"], target)
    forced = [system.header.target == "reference" for system in systems]
    alike = (
        view["text"]
        for view, of_reference in zip(row["views"], forced)
        if view and _alike(_words(row["targets"][view["text"]]), _words(target), of_reference and forced[number])
    )
    row["views"][number] = {
        "source": _place(row["sources"], side(record.source, record.subwords, words_of_source)),
        "target": place,
        "text": next(alike, place),  # the first target with the same words; subwords may differ
        **({"score": finite(record.score, 4)} if record.scores else {}),
        "scores": [finite(score, 3) for score in record.scores] or None,
        "weights": {name: encode(matrix) for name, matrix in record.weights.items()},
    }


def _place(sides: List[Dict[str, Any]], one: Dict[str, Any]) -> int:
    """The index of ``one`` in ``sides``; it is appended if it is missing."""
    if one not in sides:
        sides.append(one)
    return sides.index(one)


def _words(one: Dict[str, Any]) -> List[str]:
    return one.get("words", one["tokens"])


def _alike(one: Sequence[str], other: Sequence[str], unknown: bool) -> bool:
    """Whether the words are the same; with ``unknown``, <unk> equals every word."""
    return len(one) == len(other) and all(
        left == right or (unknown and (UNKNOWN in left or UNKNOWN in right)) for left, right in zip(one, other)
    )


def write_page(explored: Explored, out: PathLike) -> None:
    """Writes the page; the file appears when it is complete. Raises ``OptionError`` if it cannot be written."""
    text = frame.page(
        "explore.html",
        explored.data["title"],
        style=frame.read_asset("view.css", "explore.css"),
        script=frame.read_asset("view.js", "explore.js"),
        data=explored.data,
    )
    with whole_text(out, f"--out {out}: cannot be written") as stream:
        stream.write(text)


def explore(
    files: Sequence[str],
    out: PathLike,
    sentences: Optional[Sequence[int]] = None,
    first: int = FIRST,
) -> Explored:
    """Writes the page ``out`` for files of ``fairseq-attn extract``, each ``FILE`` or ``LABEL=FILE``.

    The other arguments and the errors are those of :func:`collect`. Also raises ``OptionError`` if there is no sentence
    to show.
    """
    explored = collect(open_systems(files), sentences, first)
    if not explored.data["sentences"]:
        where = f"--sentences {' '.join(map(str, sentences))}" if sentences else files[0]
        raise OptionError(f"{where}: is in none of the files" if sentences else f"{where}: has no sentences")
    write_page(explored, out)
    return explored
