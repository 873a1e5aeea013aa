"""``fairseq-preprocess --user-dir fairseq_attn_plugin`` looks at its texts before and after it binarises them.

Stock ``fairseq-preprocess`` binarises two texts of different lengths, on which a training fails, takes a byte-order
mark for a part of the first word and UTF-16 for words, and stops with a trace at other encodings. With several workers
it looks for the lines of each worker by positions of a text stream, which are no bytes where lines end by CR LF: it
binarises sentences twice. Here a line ends by LF or CR LF, a worker's lines are found in the bytes of the file, and the
sentences that were written are counted.
"""

import os
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, List, Optional, Tuple

from fairseq_attn_plugin.errors import OptionError

from .wrapping import Patch

__all__ = ["PATCH", "check_corpora", "count_lines", "line_offsets", "lines_between"]


def count_lines(path: str) -> int:
    """The number of lines of a text, each of which ends by LF or CR LF.

    Raises:
        OptionError: the file cannot be read, is empty, is not UTF-8, begins with a byte-order mark, or has NUL bytes or
            a carriage return within a line
    """
    number = 0
    for number, line in numbered_lines(path):
        if "\r" in line.rstrip("\r\n"):
            raise OptionError(
                f"{path}, line {number}: has a carriage return (CR) that does not end the line, as some programs take "
                "it to do; replace it by a space, or by a line feed"
            )
        if "\0" in line:
            raise OptionError(f"{path}, line {number}: has NUL bytes; convert the text to UTF-8 (from UTF-16?)")
    if not number:
        raise OptionError(f"{path}: is empty")
    return number


def numbered_lines(path: str, remedy: str = "convert it, as in iconv -f latin1 -t utf-8") -> Iterator[Tuple[int, str]]:
    """The lines of a file, from 1, each of which ends by LF or CR LF.

    Args:
        path: of the file
        remedy: for one that is not UTF-8

    Raises:
        OptionError: the file cannot be read, is not UTF-8, or begins with a byte-order mark
    """
    number = 0
    try:
        with open(path, encoding="utf-8", newline="\n") as stream:
            for number, line in enumerate(stream, 1):
                if number == 1 and line.startswith("\ufeff"):
                    raise OptionError(f"{path}: begins with a byte-order mark, a part of the first word; remove it")
                yield number, line
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}: is not UTF-8 after line {number} ({error.reason}); {remedy}") from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None


def check_corpora(args: Any) -> None:
    """Checks the texts of ``fairseq-preprocess``.

    Raises:
        OptionError: a text that :func:`count_lines` refuses, or texts of a split with different numbers of lines
    """
    for paths in _splits(args):
        counts = [count_lines(path) for path in paths]
        for path, count in zip(paths[1:], counts[1:]):
            if count != counts[0]:
                raise OptionError(
                    f"{paths[0]} has {counts[0]} lines and {path} has {count}: must have the same number, a line for "
                    "each sentence pair"
                )


def _splits(args: Any) -> Iterator[List[str]]:
    """The texts of each split: source, target and alignments, where they are there."""
    sides: Tuple[Any, ...] = (args.source_lang,) if args.only_source else (args.source_lang, args.target_lang)
    prefixes = [args.trainpref] if args.trainpref else []
    for several in filter(None, (args.validpref, args.testpref)):
        prefixes += several.split(",")
    for prefix in prefixes:
        paths = [f"{prefix}.{side}" if side else prefix for side in sides]
        if args.align_suffix and os.path.exists(f"{prefix}.{args.align_suffix}"):
            paths.append(f"{prefix}.{args.align_suffix}")
        yield paths


def line_offsets(path: str, chunks: int) -> List[int]:
    """The bytes at which chunks of whole lines begin, and the size of the file."""
    size = os.path.getsize(path)
    offsets = [0]
    with open(path, "rb") as stream:
        for number in range(1, chunks):
            stream.seek(max(size * number // chunks, offsets[-1]))
            stream.readline()
            offsets.append(stream.tell())
    return [*offsets, size]


@contextmanager
def lines_between(path: str, start: int, end: int) -> Iterator[Iterator[str]]:
    """The lines of a text from byte ``start`` to byte ``end``, as :func:`line_offsets` gives them.

    As with fairseq's own, an end of 0 or less is that of the file.
    """

    def read() -> Iterator[str]:
        position = start
        for line in stream:
            if 0 < end <= position:
                return
            position += len(line)
            yield line.decode("utf-8")

    with open(path, "rb") as stream:
        stream.seek(start)
        yield read()


def _checking(main: Callable[..., Any]) -> Callable[..., Any]:
    def checking(args: Any) -> Any:
        check_corpora(args)
        return main(args)

    return checking


def _counting(make_binary_dataset: Callable[..., None]) -> Callable[..., None]:
    def make(vocab: Any, input_prefix: str, output_prefix: str, lang: Optional[str], workers: int, args: Any) -> None:
        make_binary_dataset(vocab, input_prefix, output_prefix, lang, workers, args)
        from fairseq.data.indexed_dataset import make_dataset
        from fairseq_cli.preprocess import dataset_dest_prefix

        text = input_prefix if lang is None else f"{input_prefix}.{lang}"
        binarised = dataset_dest_prefix(args, output_prefix, lang)
        with open(text, "rb") as stream:  # checked before
            lines = sum(1 for _ in stream)
        written = len(make_dataset(binarised, args.dataset_impl))
        if lines != written:
            raise OptionError(f"{text}: has {lines} lines, and {binarised} holds {written}; try --workers 1")

    return make


PATCH = Patch(
    name="corpora",
    reason="fairseq-preprocess takes texts of different lengths, binarises lines twice, and stops with traces",
    checked=("0.12.3", "0.12.3.1"),
    wraps={
        "fairseq_cli.preprocess:main": _checking,
        "fairseq_cli.preprocess:_make_binary_dataset": _counting,
        "fairseq.binarizer:find_offsets": lambda stock: lambda *args: line_offsets(*args),
        "fairseq.binarizer:Chunker": lambda stock: lambda *args: lines_between(*args),
        "fairseq.data.dictionary:find_offsets": lambda stock: lambda *args: line_offsets(*args),
        "fairseq.data.dictionary:Chunker": lambda stock: lambda *args: lines_between(*args),
    },
    needed=lambda: "fairseq_cli.preprocess" in sys.modules,  # importing it would slow every other tool down
)
