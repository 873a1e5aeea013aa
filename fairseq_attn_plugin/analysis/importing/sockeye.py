"""Output of Sockeye 1 (1.16 and 1.18) and of Nematus.

``sockeye.translate --output-type translation_with_alignment_matrix`` writes a block for each sentence, whose rows are
source tokens; ``nematus/translate.py --output_alignment`` writes the same block with target tokens as rows:

    1 ||| a house </s> ||| -0.41 ||| ein haus ||| 2 ||| 3
    0.900000 0.100000 0.050000
    0.100000 0.800000 0.050000

``--output-type translation_with_alignments`` writes ``TRANSLATION TAB 0-0 1-1``, ``--output-type json`` with
``--nbest-size`` a line ``{"translations": [...], "alignments": [[[0, 0], ...], ...]}``; both need the source text.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import Any, Iterator, List, Optional

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import parse_alignment
from fairseq_attn_plugin.analysis.importing.lines import numbered_lines
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence, numbers_of, without_end
from fairseq_attn_plugin.errors import OptionError

__all__ = ["read_nematus", "read_sockeye"]

BAR = " ||| "


def read_sockeye(files: Files) -> Iterator[Sentence]:
    """Yields the sentences of any of Sockeye's forms; the first line decides which."""
    for _, line in numbered_lines(files.path):
        if line.startswith("{"):
            yield from _json(files.path)
        elif BAR in line:
            yield from _blocks(files.path, source_rows=True)
        else:
            yield from _tabs(files.path)
        return


def read_nematus(files: Files) -> Iterator[Sentence]:
    """Yields the sentences of Nematus, whose rows are target tokens."""
    yield from _blocks(files.path, source_rows=False)


def _blocks(path: str, source_rows: bool) -> Iterator[Sentence]:
    block: List[str] = []
    first, number, rank, previous = "", -1, 1, None
    # an empty line ends a block, and the file may lack the last one
    for where, line in chain(numbered_lines(path), [("", "")]):
        if line.strip():
            first = first if block else where
            block.append(line)
            continue
        if not block:
            continue
        fields = [field.strip() for field in block[0].split(BAR)]
        if len(fields) < 4 or block[0].count("|||") < 3:
            raise OptionError(f"{first}: must be NUMBER ||| TARGET ||| SCORE ||| SOURCE ||| N ||| T, before its matrix")
        rank = rank + 1 if fields[0] == previous else 1
        number, previous = number + (rank == 1), fields[0]
        target, source = fields[1].split(), fields[3].split()
        rows = [numbers_of(row.split(), first) for row in block[1:]]
        if len({len(row) for row in rows}) > 1:
            raise OptionError(f"{first}: the rows of the matrix have different lengths")
        matrix = np.array(rows) if rows else np.zeros((0, len(target)) if source_rows else (0, len(source)))
        yield Sentence(first, number, target, source, matrix.T if source_rows else matrix, rank=rank)
        block = []


def _tabs(path: str) -> Iterator[Sentence]:
    for number, (where, line) in enumerate(numbered_lines(path)):
        target, tab, links = line.partition("\t")
        if not tab:
            raise OptionError(f"{where}: must be TRANSLATION TAB 0-0 1-1, or a block with a matrix")
        try:
            yield Sentence(where, number, target.split(), links=parse_alignment(links).possible)
        except ValueError as error:
            raise OptionError(f"{where}: {error}") from None


def _json(path: str) -> Iterator[Sentence]:
    for number, (where, line) in enumerate(numbered_lines(path)):
        found = _hypotheses(line)
        if found is None:
            raise OptionError(
                f"{where}: must be a JSON object with translations and alignments, as sockeye.translate writes with "
                "--output-type json and --nbest-size of 2 or more"
            )
        for rank, (translation, links) in enumerate(found, 1):
            target = without_end(translation.split())
            yield Sentence(where, number, target, links={(i, j) for i, j in links}, rank=rank)


def _hypotheses(line: str) -> Optional[List[Any]]:
    try:
        values = json.loads(line)
        translations, alignments = values["translations"], values["alignments"]
        right = len(translations) == len(alignments) and all(isinstance(one, str) for one in translations)
        links = [link for links in alignments for link in links]
        right = right and all(len(link) == 2 and all(type(index) is int for index in link) for link in links)
        return list(zip(translations, alignments)) if right else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
