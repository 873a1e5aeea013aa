"""``fairseq-preprocess --user-dir fairseq_attn_plugin`` looks at its texts before it binarises them.

Stock ``fairseq-preprocess`` binarises two texts of different lengths, on which a training fails, takes a byte-order
mark for a part of the first word and UTF-16 for words, and stops with a trace at other encodings. Line ends of Windows
are fine: fairseq strips them.
"""

import os
import sys
from typing import Any, Callable, Iterator, List, Tuple

from fairseq_attn_plugin.errors import OptionError

from .wrapping import Patch

__all__ = ["PATCH", "check_corpora", "count_lines"]


def count_lines(path: str) -> int:
    """The number of lines of a text, as fairseq counts them.

    Raises:
        OptionError: the file cannot be read, is empty, is not UTF-8, begins with a byte-order mark, or has NUL bytes
    """
    number = 0
    try:
        with open(path, encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                if "\0" in line:
                    raise OptionError(f"{path}, line {number}: has NUL bytes; convert the text to UTF-8 (from UTF-16?)")
                if number == 1 and line.startswith("\ufeff"):
                    raise OptionError(f"{path}: begins with a byte-order mark, a part of the first word; remove it")
    except UnicodeDecodeError as error:
        raise OptionError(
            f"{path}: is not UTF-8 after line {number} ({error.reason}); convert it, as in iconv -f latin1 -t utf-8"
        ) from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not number:
        raise OptionError(f"{path}: is empty")
    return number


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


def _checking(main: Callable[..., Any]) -> Callable[..., Any]:
    def checking(args: Any) -> Any:
        check_corpora(args)
        return main(args)

    return checking


PATCH = Patch(
    name="corpora",
    reason="fairseq-preprocess takes texts of different lengths, and stops with a trace at other encodings",
    checked=("0.12.3", "0.12.3.1"),
    wraps={"fairseq_cli.preprocess:main": _checking},
    needed=lambda: "fairseq_cli.preprocess" in sys.modules,  # importing it would slow every other tool down
)
