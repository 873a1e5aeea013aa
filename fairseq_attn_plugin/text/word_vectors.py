"""Reads word vectors from text files of word2vec, fastText or GloVe, for the words of fairseq dictionaries."""

from __future__ import annotations

import math
import os
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError

__all__ = ["ordinary_words", "read_word_vectors"]


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
    a repeated word counts. A line with parts that are no numbers is of a word with spaces, which no dictionary has.

    Args:
        path: the file, in UTF-8
        dictionaries: the vocabularies
        option: the option that names the file, for messages

    Returns:
        an array ``[V, d]`` in float32 for each dictionary; zero for a word without a vector and for special symbols

    Raises:
        OptionError: the file cannot be read, has no vectors, has vectors of different widths, or has infinite numbers;
            the message names the line
    """
    places: Dict[str, List[Tuple[int, int]]] = {}
    for side, dictionary in enumerate(dictionaries):
        for index in np.flatnonzero(ordinary_words(dictionary)).tolist():
            places.setdefault(dictionary[index], []).append((side, index))
    result: List[np.ndarray] = []
    width = 0
    try:
        # only a line feed ends a line: fastText words may contain other characters that Python takes for line ends
        with open(path, encoding="utf-8-sig", errors="replace", newline="\n") as stream:
            bar = tqdm(stream, desc=os.path.basename(path), unit=" lines", disable=None, leave=False)
            for number, line in enumerate(bar, start=1):
                word, _, text = line.rstrip(" \t\r\n").replace("\t", " ").partition(" ")
                if number == 1 and re.fullmatch(r"[0-9]+ [0-9]+", f"{word} {text}"):
                    continue  # of word2vec
                count, where = len(text.split()), f"{option} {path}, line {number}"
                width = width or count
                if count < max(width, 1) or (count > width and _numbers(text) is not None):
                    needed = f"{count} numbers after the word {word[:30]!r}, must have {width or 'some'}"
                    raise OptionError(f"{where}: has {needed}")
                if count > width:
                    continue
                result = result or [np.zeros((len(one), width), dtype=np.float32) for one in dictionaries]
                wanted = places.pop(word, ())
                vector = _numbers(text) if wanted else None
                if wanted and vector is None:
                    raise OptionError(f"{where}: the values after the word {word[:30]!r} must be finite numbers")
                for side, index in wanted:
                    result[side][index] = vector
    except OSError as error:
        raise OptionError(f"{option} {path}: cannot be read: {error.strerror or error}") from None
    if not result:
        raise OptionError(f"{option} {path}: has no vectors")
    return result


def _numbers(text: str) -> Optional[np.ndarray]:
    try:
        values = [float(part) for part in text.split(" ")]
    except ValueError:
        return None
    # numbers that overflow in single precision are refused as well
    if not all(math.isfinite(value) and abs(value) < 3e38 for value in values):
        return None
    return np.array(values, dtype=np.float32)
