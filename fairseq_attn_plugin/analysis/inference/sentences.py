"""The sentences of a binarised split or of a text file, as a model reads them."""

from __future__ import annotations

import os
import zlib
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import Teacher, load_split
from fairseq_attn_plugin.errors import OptionError

__all__ = ["Sentence", "SplitSentences", "TextSentences", "symbols_of"]


MANY = 0.1  # more unknown words than this share are no accident


class Sentence(NamedTuple):
    """A sentence to extract from; tensors end with the end of the sentence."""

    id: int
    source: Tensor
    target: Optional[Tensor]
    source_tokens: List[str]  # without the end; words that the model does not know as they are, where that is known
    target_tokens: Optional[List[str]]


class SplitSentences:
    """The sentences of a binarised split."""

    def __init__(self, teacher: Teacher, split: str, references: bool = True):
        """Raises ``OptionError`` if the split is empty, or has no target side where ``references`` are needed."""
        self.teacher, self.name = teacher, split
        self.dataset = load_split(teacher, split, references)
        self.files = _split_files(teacher, split)

    def __len__(self) -> int:
        return len(self.dataset)

    def __call__(self, start: int) -> Iterator[Sentence]:
        """From sentence number ``start`` on."""
        sides = (self.teacher.task.source_dictionary, self.teacher.task.target_dictionary)
        for number in range(start, len(self)):
            item = self.dataset[number]
            source, target = (
                None if side is None else side.masked_fill(side.eq(dictionary.pad()), dictionary.unk())
                for side, dictionary in zip((item["source"], item.get("target")), sides)
            )
            assert source is not None
            tokens = [
                None if side is None else symbols_of(side, dictionary)
                for side, dictionary in zip((source, target), sides)
            ]
            yield Sentence(number, source, target, tokens[0] or [], tokens[1])


class TextSentences:
    """The lines of a text, and of its translation where there is one."""

    def __init__(
        self,
        teacher: Teacher,
        source: str,
        target: Optional[str] = None,
        segment_source: Callable[[str], List[str]] = str.split,
        segment_target: Callable[[str], List[str]] = str.split,
    ):
        """Lines become tokens by ``segment_source`` and ``segment_target``, such as a :class:`.Segmenter`.

        Raises ``OptionError`` if a file cannot be read or the two have different numbers of lines."""
        self.teacher, self.paths, self.name = teacher, (source, target), Path(source).name
        self.segmenters = (segment_source, segment_target)
        self.files = [Path(path) for path in self.paths if path is not None]
        self.tokens = self.unknown = 0  # of the source, as far as it was read
        self.length = _lines(source, "--source-text")
        if target is not None:
            other = _lines(target, "--target-text")
            if other != self.length:
                raise OptionError(f"--target-text {target}: has {other} lines, {source} has {self.length}")
        if not self.length:
            raise OptionError(f"--source-text {source}: has no sentence")

    def __len__(self) -> int:
        return self.length

    def __call__(self, start: int) -> Iterator[Sentence]:
        """From line ``start``, counted from 0, on."""
        source, target = self.paths
        with open(source, encoding="utf-8-sig") as one, open(target or os.devnull, encoding="utf-8-sig") as other:
            for number, line in islice(enumerate(one), start, None):
                if number == start:
                    next(islice(other, start, start), None)
                words = self.segmenters[0](line)
                ids = _encode(self.teacher.task.source_dictionary, words)
                self.tokens += len(words)
                self.unknown += int(ids.eq(self.teacher.task.source_dictionary.unk()).sum())
                if target is None:
                    yield Sentence(number, ids, None, words, None)
                else:
                    theirs = self.segmenters[1](other.readline())
                    yield Sentence(number, ids, _encode(self.teacher.task.target_dictionary, theirs), words, theirs)


def _lines(path: str, option: str) -> int:
    if Path(path).exists() and not Path(path).is_file():
        raise OptionError(f"{option} {path}: must be a file; it is read twice, which a pipe or a folder cannot be")
    try:
        with open(path, encoding="utf-8") as stream:
            return sum(1 for _ in stream)
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{option} {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _split_files(teacher: Teacher, split: str) -> List[Path]:
    """The files of a split, in whatever form it was binarised."""
    source, target = teacher.languages
    names = [
        f"{split}.{pair}.{side}*" for pair in (f"{source}-{target}", f"{target}-{source}") for side in (source, target)
    ]
    return sorted({path for name in names for path in Path(teacher.task.cfg.data).glob(name)})


def _fingerprint(path: Path) -> str:
    """Size, and a check sum of files that are not the words themselves of a binarised split, which may be large."""
    if not path.is_file():
        return ""
    check = 0
    if path.suffix != ".bin":
        with open(path, "rb") as stream:
            while True:
                part = stream.read(1 << 20)
                if not part:
                    break
                check = zlib.crc32(part, check)
    return f"{path.name} {path.stat().st_size} {check:08x}"


def _encode(dictionary: Any, tokens: List[str]) -> Tensor:
    """Numbers of tokens and the end; what looks like a special symbol of the dictionary is a word it does not have."""
    special = (dictionary.bos(), dictionary.pad(), dictionary.eos())
    numbers = [dictionary.index(token) for token in tokens]
    return torch.tensor([dictionary.unk() if index in special else index for index in numbers] + [dictionary.eos()])


def symbols_of(ids: Tensor, dictionary: Any) -> List[str]:
    """Without the end of the sentence."""
    numbers = ids.tolist()
    if numbers and numbers[-1] == dictionary.eos():
        numbers.pop()
    return [dictionary[index] for index in numbers]
