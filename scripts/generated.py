"""Reads the output of ``fairseq-generate --print-alignment soft`` without joining subwords."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, NamedTuple, Union

import numpy as np

from fairseq_attn_plugin.errors import OptionError


class Generated(NamedTuple):
    """One sentence: tokens without end of sentence, and attention [T + 1, N + 1] with it (last row and column)."""

    source: List[str]
    target: List[str]
    attention: np.ndarray


def read_generated(path: Union[str, Path]) -> List[Generated]:
    """The best hypothesis of every sentence, in the order of the corpus.

    Run fairseq-generate without ``--remove-bpe`` (or ``--post-process``), so that tokens and attention match. Without
    the plugin as ``--user-dir`` it also needs ``--required-batch-size-multiple 1``; otherwise it leaves out the last
    sentences of a test set if their number is not a multiple of 8. Raises ``OptionError`` if the file cannot be read,
    or lacks a sentence or its attention, or if tokens and attention do not match.
    """
    lines: Dict[str, Dict[int, str]] = {"S": {}, "H": {}, "A": {}}
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot read the output of fairseq-generate: {error}") from None
    for line in text.split("\n"):
        kind, _, rest = line.partition("-")
        digits, tab, content = rest.partition("\t")
        if kind in lines and tab and digits.isdecimal() and len(digits) < 19:
            lines[kind].setdefault(int(digits), content)  # with --nbest the best one comes first
    if not lines["H"]:
        raise OptionError(f"{path}: has no translations (lines H-0, H-1, ...); check that fairseq-generate finished")
    generated = []
    for number in range(max(lines["H"]) + 1):
        missing = [kind for kind in "SHA" if number not in lines[kind]]
        if missing:
            raise OptionError(
                f"{path}: sentence {number} has no line {missing[0]}-{number}; run fairseq-generate with "
                f"--print-alignment soft --required-batch-size-multiple 1"
            )
        source, target = lines["S"][number].split(), lines["H"][number].partition("\t")[2].split()
        generated.append(Generated(source, target, _matrix(lines["A"][number], source, target, f"{path}: A-{number}")))
    return generated


def _matrix(text: str, source: List[str], target: List[str], where: str) -> np.ndarray:
    shape = (len(target) + 1, len(source) + 1)
    try:
        rows = [[float(weight) for weight in row.split(",")] for row in text.split()]
        matrix = np.array(rows)
    except ValueError:
        raise OptionError(f"{where}: is not soft attention; use --print-alignment soft") from None
    if matrix.shape != shape:
        raise OptionError(
            f"{where}: attention is {' x '.join(map(str, matrix.shape))}, the tokens (with end of sentence) are "
            f"{shape[0]} x {shape[1]}; run fairseq-generate without --remove-bpe and --post-process"
        )
    return matrix
