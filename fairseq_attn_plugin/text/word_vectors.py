"""Word vectors from text files, word2vec's, fastText's or GloVe's, for the words of fairseq dictionaries."""

from __future__ import annotations

import math
import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError

__all__ = ["ordinary_words", "read_word_vectors"]


def ordinary_words(dictionary: Any) -> np.ndarray:
    """Boolean array over a fairseq dictionary: False for <s>, <pad>, </s>, <unk> and what else it calls special."""
    ordinary = np.ones(len(dictionary), dtype=bool)
    ordinary[: dictionary.nspecial] = False
    ordinary[[dictionary.bos(), dictionary.pad(), dictionary.eos(), dictionary.unk()]] = False
    return ordinary


def read_word_vectors(path: str, dictionaries: Sequence[Any], option: str) -> List[np.ndarray]:
    """The vectors of a text file for the words of fairseq dictionaries, in the spelling of the file.

    A line is a word and its numbers, with spaces between them; the first line may be that of word2vec, number and width
    of the vectors. The file is read as a stream, and only what the dictionaries have is kept. Of a word that comes
    twice the first vector counts. Numbers are looked at only where they are kept, the number of them in every line.

    Args:
        path: the file, in UTF-8
        dictionaries: the vocabularies, each of which takes all its words
        option: what the errors name

    Returns:
        an array ``[V, d]`` for each dictionary, in float32; zeros where a word has no vector, and for special symbols

    Raises:
        OptionError: the file cannot be read, has no vectors, has a malformed line or vectors of different width (the
            line is named)
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
        # only a line feed ends a line: words of fastText may hold other characters that Python takes for ends of lines
        with open(path, encoding="utf-8", errors="replace", newline="\n") as stream:
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
                if result is None:
                    result = [np.zeros((len(dictionary), width), dtype=np.float32) for dictionary in dictionaries]
                if count != width:
                    if _spaced_word(line, width):
                        continue
                    raise OptionError(
                        f"{option} {path}, line {number}: has {count} numbers after the word {_cut(line)}, must have "
                        f"{width} as {promised} says"
                    )
                word, _, text = line.partition(" ")
                wanted = places.pop(word, None)
                if wanted is None:
                    continue
                vector = _numbers(text)
                if vector is None:
                    raise OptionError(
                        f"{option} {path}, line {number}: after the word {_cut(word)} not all is finite numbers"
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
    return len(parts) == 2 and all(part.isascii() and part.isdigit() for part in parts)


def _numbers(text: str) -> Optional[np.ndarray]:
    try:
        values = [float(part) for part in text.split(" ")]
    except ValueError:
        return None
    # not finite is also what overflows in single precision
    if not all(math.isfinite(value) and abs(value) < 3e38 for value in values):
        return None
    return np.array(values, dtype=np.float32)


def _spaced_word(line: str, width: int) -> bool:
    """Whether the line is a word with spaces in it, as some collections have, before ``width`` numbers.

    No vocabulary has such a word. A line of numbers alone after the first space is a vector of another width.
    """
    parts = line.split(" ")
    if len(parts) <= width + 1 or _numbers(" ".join(parts[-width:])) is None:
        return False
    return any(_numbers(part) is None for part in parts[1:-width])


def _cut(text: str, width: int = 30) -> str:
    return repr(text.split(" ")[0][:width])
