"""Attention of Hugging Face models, in a JSON form of this package: a list of sentences, or one in each line.

    [{"source": ["▁ein", "▁haus", "</s>"], "target": ["▁a", "▁house", "</s>"],
      "attention": [[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.1, 0.8]]}]

``attention`` has a row for each target token and a number for each source token. The last token of a side may be its
end; without it, a last row or column that no token has is the end's. A sentence may have ``scores`` (natural log
probabilities of the target tokens and the end), a ``reference`` (words), and, for n-best lists, ``id`` and ``rank``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, List, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.importing.lines import numbered_lines
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence
from fairseq_attn_plugin.errors import OptionError

__all__ = ["read_hugging_face"]


def read_hugging_face(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names line or sentence, for another form."""
    previous, last, count = -1, 0, 0
    for where, values in _objects(files.path):
        number = values.get("id", count) if isinstance(values, dict) else count
        rank = values.get("rank", 1) if isinstance(values, dict) else 1
        if not (type(number) is int and type(rank) is int and number >= max(previous, 0) and rank >= 1):
            raise OptionError(f"{where}: id and rank must be whole numbers in ascending order, ranks from 1")
        wanted = last + 1 if number == previous else 1
        if rank != wanted:
            raise OptionError(
                f"{where}: has rank {rank} of id {number}; must be {wanted}: ranks of an id are 1, 2 and so on"
            )
        yield _sentence(values, where, number, rank)
        previous, last, count = number, rank, number + 1


def _objects(path: str) -> Iterator[Tuple[str, Any]]:
    """The sentences of a list, which is read in full, or of lines."""
    lines = False
    for where, line in numbered_lines(path):
        if not line.strip():
            continue
        if not lines and line.lstrip().startswith("["):
            break
        lines = True
        try:
            yield where, json.loads(line)
        except (ValueError, RecursionError):
            raise OptionError(f"{where}: must be a JSON object, or the file a list of them") from None
    if lines:
        return
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{path}: must be a JSON list of sentences: {error}") from None
    for number, values in enumerate(found):
        yield f"{path}, sentence {number}", values


def _sentence(values: Any, where: str, number: int, rank: int) -> Sentence:
    try:
        source, target = _strings(values["source"]), _strings(values["target"])
        weights = np.array(values["attention"], dtype=float)
        scores = np.array(values.get("scores", []), dtype=float)
        reference = values.get("reference")
        if scores.ndim != 1 or not (scores < np.inf).all() or not isinstance(reference, (str, type(None))):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError):
        raise OptionError(
            f"{where}: must have source and target, lists of tokens, and attention, a row of numbers for each target "
            "token; scores are a list of numbers, a reference is a text"
        ) from None
    if not target and weights.size == 0:
        weights = np.zeros((0, len(source)))
    return Sentence(where, number, target, source, weights, None, scores.tolist(), reference, rank)


def _strings(values: Any) -> List[str]:
    if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
        raise ValueError
    return values
