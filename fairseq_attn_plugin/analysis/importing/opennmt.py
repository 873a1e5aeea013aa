"""Output of OpenNMT-py: links of ``translate -report_align``, and the matrices that ``-attn_debug`` logs.

    a house ||| 0-0 1-1                                    the output file; n-best hypotheses follow one another

                      ein       haus                       the log
             a *0.9000000  0.1000000
         house  0.2000000 *0.8000000
          </s>  0.1000000 *0.9000000

The log shortens words, so it needs the texts as well; its rows are checked against them (OpenNMT-py 1 to 3).
"""

from __future__ import annotations

import re
from typing import Iterator, List, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.alignment.links import parse_alignment
from fairseq_attn_plugin.analysis.importing.lines import Text, numbered_lines
from fairseq_attn_plugin.analysis.importing.sentence import Files, Sentence, numbers_of
from fairseq_attn_plugin.errors import OptionError

__all__ = ["read_debug", "read_report"]

BAR = "|||"
_END = "</s>"
_SHOWN = 10  # characters of a word in a row
_ROW = re.compile(r"\s*(\S+)((?:\s+\**\d+\.\d{7})+)\s*")


def read_report(files: Files) -> Iterator[Sentence]:
    """Yields the sentences of ``-report_align``; raises ``OptionError``, which names the line, for another form."""
    for count, (where, line) in enumerate(numbered_lines(files.path)):
        target, bar, links = line.partition("\t")[0].rpartition(BAR)  # -with_score appends it after a tab
        if not bar:
            raise OptionError(f"{where}: must be TRANSLATION {BAR} 0-0 1-1, as OpenNMT-py's -report_align writes")
        try:
            found = parse_alignment(links).possible
        except ValueError as error:
            raise OptionError(f"{where}: {error}") from None
        number, rank = divmod(count, files.nbest)
        yield Sentence(where, number, target.split(), links=found, rank=rank + 1)


def read_debug(files: Files) -> Iterator[Sentence]:
    """Yields the sentences of the log of ``-attn_debug``; what else the log has is left out.

    Raises ``OptionError``, which names the line, if a matrix has other words than ``--target-text``.
    """
    assert files.target_text is not None
    text, number = Text("--target-text", files.target_text), 0
    rows: List[Tuple[str, List[float]]] = []
    first = ""
    for where, line in numbered_lines(files.path):
        match = _ROW.fullmatch(line)
        if match is None:
            rows = []  # a header
            continue
        first = first if rows else where
        rows.append((match[1], numbers_of(match[2].replace("*", " ").split(), where)))
        if match[1] != _END:
            continue
        target = text.tokens(number, first)
        shown = [word for word, _ in rows[:-1]]
        if shown != [word[:_SHOWN] for word in target]:
            raise OptionError(
                f"{first}: the rows are {' '.join(shown)!r}, line {number + 1} of {text.name} is {' '.join(target)!r}"
            )
        if len({len(row) for _, row in rows}) > 1:
            raise OptionError(f"{first}: the rows of the matrix have different lengths")
        yield Sentence(first, number, target, weights=np.array([row for _, row in rows]))
        rows, number = [], number + 1
    text.check_end(files.path)
