"""Output of ``marian-decoder --alignment soft`` (or ``hard``), plain or ``--n-best``, also with ``--word-scores``.

    ein haus ||| 0.9,0.1,0 0.2,0.7,0.1 0,0.1,0.9                                          soft: a group for each token
    ein haus ||| 0-0 1-1 2-2                                                              hard
    0 ||| ein haus ||| 0.9,0.1,0 0.2,0.7,0.1 0,0.1,0.9 ||| F0= -0.82 ||| -0.41            n-best

Groups are target tokens and the end, numbers in a group are source tokens and the end (as in Marian 1.11).
"""

from __future__ import annotations

import re
from typing import Iterator, List, Optional, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import parse_alignment
from fairseq_attn_plugin.analysis.importing.lines import numbered_lines
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence, numbers_of
from fairseq_attn_plugin.errors import OptionError

__all__ = ["read_marian"]

BAR = "|||"
_LINKS = re.compile(r"(\d+-\d+)?( \d+-\d+)*")
_FEATURES = re.compile(r"\S+= ?\S+( \S+= ?\S+)*")
_WORD_SCORES = "WordScores="


def read_marian(files: Files) -> Iterator[Sentence]:
    """Yields the sentences; raises ``OptionError``, which names the line, if one has another form."""
    previous: Optional[int] = None
    rank = 1
    for number, (where, line) in enumerate(numbered_lines(files.path)):
        fields = [field.strip() for field in line.split(BAR)]
        ranked = len(fields) > 4 and fields[0].isdecimal() and _FEATURES.fullmatch(fields[-2]) is not None
        if ranked:
            number = int(fields[0])
            if previous is not None and number < previous:
                raise OptionError(f"{where}: sentence {number} comes after sentence {previous}; must be in their order")
            rank = rank + 1 if number == previous else 1
            previous = number
            fields = fields[1:-2]
        scores: List[float] = []
        if fields[-1].startswith(_WORD_SCORES):
            scores = numbers_of(fields.pop()[len(_WORD_SCORES) :].split(), where)
        if len(fields) < 2:
            raise OptionError(
                f"{where}: must be TRANSLATION {BAR} ALIGNMENT, as marian-decoder --alignment soft writes"
            )
        target = f" {BAR} ".join(fields[:-1]).split()
        weights, links = _alignment(fields[-1], where)
        yield Sentence(where, number, target, weights=weights, links=links, scores=scores, rank=rank)


def _alignment(text: str, where: str) -> Tuple[Optional[np.ndarray], Optional[frozenset]]:
    if _LINKS.fullmatch(text):
        return None, parse_alignment(text).possible
    rows = [numbers_of(group.split(","), where) for group in text.split()]
    if len({len(row) for row in rows}) > 1:
        raise OptionError(f"{where}: the groups of weights have different lengths")
    return np.array(rows), None
