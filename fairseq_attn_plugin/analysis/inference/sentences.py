"""Reads the sentences of a binarised split or of a text file in the form of a model's input."""

import os
import zlib
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Callable, Iterator, List, NamedTuple, Optional

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.loading import LoadedModels, load_split
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.lines import iter_lines

MANY_UNKNOWN = 0.1  # a greater share of unknown words suggests a wrong preparation of the text


class SourceSentence(NamedTuple):
    """A sentence to extract from, with its translation if there is one. Tensors include the end of the sentence."""

    id: int
    source: Tensor
    target: Optional[Tensor]
    source_tokens: List[str]  # without the end; a text file keeps the words that the model does not know
    target_tokens: Optional[List[str]]


class SplitSentences:
    """The sentences of a binarised split."""

    def __init__(self, loaded: LoadedModels, split: str, references: bool = True):
        """Raises ``OptionError`` if the split is empty, or has no target side and ``references`` is True."""
        self.loaded, self.name = loaded, split
        self.dataset = load_split(loaded, split, references)
        source, target = loaded.languages
        pairs = (f"{source}-{target}", f"{target}-{source}")
        names = [f"{split}.{pair}.{side}*" for pair in pairs for side in (source, target)]  # in any format of fairseq
        self.files = sorted({path for name in names for path in Path(loaded.task.cfg.data).glob(name)})

    def __len__(self) -> int:
        return len(self.dataset)

    def __call__(self, start: int) -> Iterator[SourceSentence]:
        """Yields the sentences from number ``start`` on."""
        sides = (self.loaded.task.source_dictionary, self.loaded.task.target_dictionary)
        for number in range(start, len(self)):
            item = self.dataset[number]
            found: List[Any] = []
            for side, dictionary in zip((item["source"], item.get("target")), sides):
                ids = None if side is None else side.masked_fill(side.eq(dictionary.pad()), dictionary.unk())
                found.append((ids, None if ids is None else symbols_of(ids, dictionary)))
            (source, words), (target, theirs) = found
            yield SourceSentence(number, source, target, words, theirs)


class TextSentences:
    """The lines of a text, and of its translation if there is one."""

    def __init__(
        self,
        loaded: LoadedModels,
        source: str,
        target: Optional[str] = None,
        segment_source: Callable[[str], List[str]] = str.split,
        segment_target: Callable[[str], List[str]] = str.split,
    ):
        """``segment_source`` and ``segment_target``, such as a :class:`~.segmenter.Segmenter`, split lines into tokens.

        Raises ``OptionError`` if a file cannot be read, is empty, or the two have different numbers of lines.
        """
        self.loaded, self.paths, self.name = loaded, (source, target), Path(source).name
        self.segmenters = (segment_source, segment_target)
        self.files = [Path(path) for path in self.paths if path is not None]
        self.tokens = self.unknown = 0  # of the source lines read so far
        self.length = sum(1 for _ in _lines(source, "--source-text"))
        if target is not None:
            other = sum(1 for _ in _lines(target, "--target-text"))
            if other != self.length:
                raise OptionError(f"--target-text {target}: has {other} lines, {source} has {self.length}")
        if not self.length:
            raise OptionError(f"--source-text {source}: has no sentence")

    def __len__(self) -> int:
        return self.length

    def __call__(self, start: int) -> Iterator[SourceSentence]:
        """Yields the sentences from line ``start`` on, counted from 0."""
        source, target = self.paths
        lines = zip_longest(iter_lines(source), iter_lines(target or os.devnull))
        for number, (line, other) in islice(enumerate(lines), start, None):
            words = self.segmenters[0](line)
            ids = indices_of(words, self.loaded.task.source_dictionary)
            self.tokens += len(words)
            self.unknown += int(ids.eq(self.loaded.task.source_dictionary.unk()).sum())
            theirs = None if target is None else self.segmenters[1](other)
            wanted = None if theirs is None else indices_of(theirs, self.loaded.task.target_dictionary)
            yield SourceSentence(number, ids, wanted, words, theirs)


def _lines(path: str, option: str) -> Iterator[str]:
    if Path(path).exists() and not Path(path).is_file():
        raise OptionError(f"{option} {path}: must be a regular file, since it is read twice")
    return iter_lines(path, f"{option} {path}")


def fingerprint(path: Path) -> str:
    """Name, size and CRC-32 of a file; the CRC-32 of a ``.bin`` file, which may be large, is given as zero."""
    if not path.is_file():
        return ""
    check = 0
    if path.suffix != ".bin":
        with open(path, "rb") as stream:
            while part := stream.read(1 << 20):
                check = zlib.crc32(part, check)
    return f"{path.name} {path.stat().st_size} {check:08x}"


def indices_of(tokens: List[str], dictionary: Any) -> Tensor:
    """Indices of tokens and the end. A token that looks like a special symbol of the dictionary is unknown."""
    special = (dictionary.bos(), dictionary.pad(), dictionary.eos())
    numbers = [dictionary.index(token) for token in tokens]
    return torch.tensor([dictionary.unk() if index in special else index for index in numbers] + [dictionary.eos()])


def symbols_of(ids: Tensor, dictionary: Any) -> List[str]:
    """The symbols of a sentence, without the end."""
    numbers = ids.tolist()
    if numbers and numbers[-1] == dictionary.eos():
        numbers.pop()
    return [dictionary[index] for index in numbers]
