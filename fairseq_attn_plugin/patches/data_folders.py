"""A data folder is checked when it is opened: what ``fairseq-preprocess`` wrote is there, whole, and fits.

Stock fairseq maps the files of a data folder into memory as they are. A file that was cut short, or that belongs to
another dictionary, ends in a trace, or in a training on other sentences. Each fault is one line that names the file.
"""

import os
import struct
from typing import Any, Callable, Optional

import numpy as np

from fairseq_attn_plugin.errors import OptionError

from .corpora import numbered_lines
from .wrapping import Patch

__all__ = ["PATCH", "check_binarised", "check_dictionary"]

MAGIC, LEGACY = b"MMIDIDX\x00\x00", b"TNTIDX\x00\x00"  # at the start of an index: of memory-mapped, and of older data
HEADER = struct.Struct("<9sQBQ")  # magic, version, type of the words, number of sentences
DTYPES = dict(enumerate("u1 i1 i2 i4 i8 f8 f8 u2 u4 u8".split(), 1))  # by fairseq's codes
MAPPED = (None, "cached", "lazy", "mmap")
BLOCK = 2**18  # sentences that are looked at together
MOST = 2**24  # sentences whose words are looked at: a check of larger data would take longer than users wait
REMEDY = "prepare the data anew by fairseq-preprocess"


def check_binarised(path: str, dictionary: Any = None) -> None:
    """Checks memory-mapped data, ``path.idx`` and ``path.bin``; data of older formats are left alone.

    Args:
        path: of the data, without ending
        dictionary: of its words, or None for other numbers (alignments)

    Raises:
        OptionError: a file is cut or has another format, a sentence is empty or does not end by the dictionary's end of
            sentence, or a word is not in the dictionary
    """

    def need(right: Any, file: str, fault: str) -> None:
        if not right:
            raise OptionError(f"{path}.{file}: {fault}; {REMEDY}")

    with open(f"{path}.idx", "rb") as stream:
        start = stream.read(HEADER.size)
    if start[: len(LEGACY)] == LEGACY:
        return
    need(start[: len(MAGIC)] == MAGIC and len(start) == HEADER.size, "idx", "is no index of binarised text")
    _, version, code, count = HEADER.unpack(start)
    need(version == 1 and code in DTYPES, "idx", f"has version {version} and type {code}, which fairseq does not write")
    size, expected = os.path.getsize(f"{path}.idx"), HEADER.size + 12 * count
    need(size == expected, "idx", f"has {size} bytes, and an index of {count} sentences has {expected}")
    if not count:
        return
    sizes = np.memmap(f"{path}.idx", dtype="<i4", mode="r", offset=HEADER.size, shape=(count,))
    starts = np.memmap(f"{path}.idx", dtype="<i8", mode="r", offset=HEADER.size + 4 * count, shape=(count,))
    width, end = np.dtype(DTYPES[code]).itemsize, 0
    for first in range(0, count, BLOCK):
        block = sizes[first : first + BLOCK].astype(np.int64)
        ends = end + np.cumsum(block)
        beside = (starts[first : first + BLOCK] == (ends - block) * width).all()
        need(block.min() >= 0 and beside, "idx", "its sentences are not side by side")
        end = int(ends[-1])
    need(os.path.isfile(f"{path}.bin"), "bin", "is missing")
    found = os.path.getsize(f"{path}.bin")
    need(found == end * width, "bin", f"has {found} bytes, and its index speaks of {end * width}")
    if dictionary is None or not found:
        return
    words = np.memmap(f"{path}.bin", dtype=DTYPES[code], mode="r")
    for first in range(0, min(count, MOST), BLOCK):
        block = sizes[first : first + BLOCK]
        empty = first + int(block.argmin()) + 1
        need(block.min() > 0, "bin", f"sentence {empty} has no words, not even the end of sentence")
        begin = int(starts[first]) // width
        ends = begin + np.cumsum(block, dtype=np.int64)
        part = words[begin : int(ends[-1])]
        known = part.min() >= 0 and part.max() < len(dictionary)
        need(known, "bin", f"has words beyond the {len(dictionary)} of its dictionary")
        last = words[ends - 1] == dictionary.eos()
        need(last.all(), "bin", f"sentence {first + int(last.argmin()) + 1} does not end by the end of sentence")


def check_dictionary(path: str) -> None:
    """Checks a dictionary, lines of a word, a space and a count.

    Raises:
        OptionError: the file cannot be read, is not UTF-8, begins with a byte-order mark, or has another line
    """
    words = set()
    for number, line in numbered_lines(path, REMEDY):
        entry = line.rstrip().removesuffix(" #fairseq:overwrite")
        word, _, count = entry.rpartition(" ")
        if not word or "\r" in word or not count.isdecimal():
            raise OptionError(f"{path}, line {number}: {entry!r} is not a word, a space and a count, as in 'house 12'")
        if word in words and entry == line.rstrip():
            raise OptionError(f"{path}, line {number}: has the word {word!r}, as an earlier line has; {REMEDY}")
        words.add(word)


def _checking_data(make_dataset: Callable[..., Any]) -> Callable[..., Any]:
    def make(path: str, impl: Optional[str], fix_lua_indexing: bool = False, dictionary: Any = None) -> Any:
        if impl in MAPPED and os.path.isfile(f"{path}.idx"):
            check_binarised(path, dictionary)
        return make_dataset(path, impl, fix_lua_indexing, dictionary)

    return make


def _checking_dictionary(add_from_file: Callable[..., None]) -> Callable[..., None]:
    def add(self: Any, file: Any) -> None:
        if isinstance(file, str) and os.path.lexists(file):  # fairseq names one that is not there
            check_dictionary(file)
        add_from_file(self, file)

    return add


PATCH = Patch(
    name="data_folders",
    reason="damaged data end in a trace, or in a training on other sentences",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq.data.indexed_dataset:make_dataset": _checking_data,
        "fairseq.data.dictionary:Dictionary.add_from_file": _checking_dictionary,
    },
)
