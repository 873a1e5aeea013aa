"""Reads word vectors from text files of word2vec, fastText or GloVe, for the words of fairseq dictionaries."""

import io
import os
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import UNREADABLE, opened


def ordinary_words(dictionary: Any) -> np.ndarray:
    """Boolean array over a fairseq dictionary: False for <s>, <pad>, </s>, <unk> and its other special symbols."""
    return np.arange(len(dictionary)) >= dictionary.nspecial


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_word_vectors(path: str, dictionaries: Sequence[Any], option: str) -> List[np.ndarray]:
    """Reads the vectors of the words of fairseq dictionaries.

    Each line is a word and its numbers, separated by spaces. The first line may be the header of word2vec: number and
    width of the vectors. The file is read as a stream, and only words of the dictionaries are kept. The first vector of
    a repeated word counts. Some collections have words with spaces, which no dictionary has.

    Args:
        path: the file, in UTF-8, plain, ``.gz`` or ``.xz``
        dictionaries: the vocabularies
        option: the option that names the file, for messages

    Returns:
        an array ``[V, d]`` in float32 for each dictionary; zero for a word without a vector and for special symbols

    Raises:
        OptionError: the file cannot be read, has no vectors, or has a line that is no word with as many numbers as the
            first line; the message names the line
    """
    places: Dict[str, List[Tuple[int, int]]] = {}
    for side, dictionary in enumerate(dictionaries):
        for index in np.flatnonzero(ordinary_words(dictionary)).tolist():
            places.setdefault(dictionary[index], []).append((side, index))
    result: List[np.ndarray] = []
    width = 0
    try:
        # only a line feed ends a line: fastText words may contain other characters that Python takes for line ends
        with io.TextIOWrapper(opened(Path(path)), encoding="utf-8-sig", errors="replace", newline="\n") as stream:
            bar = tqdm(stream, desc=os.path.basename(path), unit=" lines", disable=None, leave=False)
            for number, line in enumerate(bar, start=1):
                line = line.rstrip(" \t\r\n").replace("\t", " ")
                if number == 1:
                    parts = line.split(" ")
                    is_header = len(parts) == 2 and all(map(str.isdecimal, parts))
                    width = int(parts[1]) if is_header else len(parts) - 1
                    result = [np.zeros((len(dictionary), width), dtype=np.float32) for dictionary in dictionaries]
                    if is_header:
                        continue
                count, (word, _, text) = line.count(" "), line.partition(" ")
                numeric = [_is_number(part) for part in text.split(" ")] if count > width > 0 else []
                if numeric and all(numeric[-width:]) and not all(numeric):
                    continue  # a word with spaces
                if count != width or not width:
                    raise OptionError(
                        f"{option} {path}, line {number}: has {count} numbers after the word {word[:30]!r}, must have "
                        f"{width or 'some'} as the first line says"
                    )
                if word not in places:
                    continue
                try:
                    vector = np.array(text.split(" "), dtype=np.float32)
                except ValueError:
                    vector = np.array(np.nan)
                if not np.isfinite(vector).all():
                    raise OptionError(
                        f"{option} {path}, line {number}: the values after the word {word!r} must be finite numbers"
                    )
                for side, index in places.pop(word):
                    result[side][index] = vector
    except UNREADABLE as error:
        raise OptionError(f"{option} {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not result:
        raise OptionError(f"{option} {path}: has no vectors")
    return result
