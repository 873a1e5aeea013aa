"""Reads word vectors from text files of word2vec, fastText or GloVe, for the words of fairseq dictionaries."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError


def ordinary_words(dictionary: Any) -> np.ndarray:
    """Boolean array over a fairseq dictionary: False for <s>, <pad>, </s>, <unk> and its other special symbols."""
    ordinary = np.ones(len(dictionary), dtype=bool)
    ordinary[: dictionary.nspecial] = False
    ordinary[[dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk()]] = False
    return ordinary


def read_word_vectors(path: str, dictionaries: Sequence[Any], option: str) -> List[np.ndarray]:
    """Reads the vectors of the words of fairseq dictionaries.

    Each line is a word and its numbers, separated by spaces. The first line may be the header of word2vec: number and
    width of the vectors. The file is read as a stream, and only words of the dictionaries are kept. The first vector of
    a repeated word counts. The width of every line is checked, the numbers only of words that are kept.

    Args:
        path: the file, in UTF-8
        dictionaries: the vocabularies
        option: the option that names the file, for messages

    Returns:
        an array ``[V, d]`` in float32 for each dictionary; zero for a word without a vector and for special symbols

    Raises:
        OptionError: the file cannot be read, has no vectors, has a malformed line, or has vectors of different widths;
            the message names the line
    """
    places: Dict[str, List[Tuple[int, int]]] = {}
    for side, dictionary in enumerate(dictionaries):
        for index in np.flatnonzero(ordinary_words(dictionary)).tolist():
            places.setdefault(dictionary[index], []).append((side, index))
    result: Optional[List[np.ndarray]] = None
    width = 0
    promised: Optional[str] = None
    number = 0
    try:
        # only a line feed ends a line: fastText words may contain other characters that Python takes for line ends
        with open(path, encoding="utf-8-sig", errors="replace", newline="\n") as stream:
            bar = tqdm(stream, desc=os.path.basename(path), unit=" lines", disable=None, leave=False)
            for number, line in enumerate(bar, start=1):
                line = line.rstrip(" \t\r\n").replace("\t", " ")
                if number == 1 and _is_header(line):
                    width, promised = int(line.split(" ")[1]), "its first line"
                    if width < 1:
                        raise OptionError(f"{option} {path}, line 1: vectors of width {width}")
                    continue
                if not line:
                    raise OptionError(f"{option} {path}, line {number}: is empty; must be a word and its numbers")
                count = line.count(" ")
                if not width:
                    width, promised = count, f"line {number}"
                    if not width:
                        raise OptionError(f"{option} {path}, line {number}: has no numbers after the word {_cut(line)}")
                if count != width:
                    if _spaced_word(line, width):
                        continue
                    raise OptionError(
                        f"{option} {path}, line {number}: has {count} numbers after the word {_cut(line)}, must have "
                        f"{width} as {promised} says"
                    )
                if result is None:  # now that a line has as many numbers as the first line promises
                    result = [np.zeros((len(dictionary), width), dtype=np.float32) for dictionary in dictionaries]
                word, _, text = line.partition(" ")
                wanted = places.pop(word, None)
                if wanted is None:
                    continue
                vector = _numbers(text)
                if vector is None:
                    raise OptionError(
                        f"{option} {path}, line {number}: the values after the word {_cut(word)} must be finite numbers"
                    )
                for side, index in wanted:
                    result[side][index] = vector
    except OSError as error:
        raise OptionError(f"{option} {path}: cannot be read: {error.strerror or error}") from None
    if result is None:
        raise OptionError(f"{option} {path}: has no vectors")
    return result


def _is_header(line: str) -> bool:
    parts = line.split(" ")
    return len(parts) == 2 and all(map(str.isdecimal, parts))


def _numbers(text: str) -> Optional[np.ndarray]:
    try:
        values = [float(part) for part in text.split(" ")]
    except ValueError:
        return None
    # numbers that overflow in single precision are refused as well
    if not all(math.isfinite(value) and abs(value) < 3e38 for value in values):
        return None
    return np.array(values, dtype=np.float32)


def _spaced_word(line: str, width: int) -> bool:
    """Whether the line is a word with spaces, which some collections have, and ``width`` numbers.

    No vocabulary has such a word, so the line is skipped. If all parts after the first space are numbers, the line is a
    vector of another width instead.
    """
    parts = line.split(" ")
    if len(parts) <= width + 1 or _numbers(" ".join(parts[-width:])) is None:
        return False
    return any(_numbers(part) is None for part in parts[1:-width])


def _cut(text: str, width: int = 30) -> str:
    return repr(text.split(" ")[0][:width])
