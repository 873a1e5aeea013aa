"""Links between subwords, as fairseq's ``--align-suffix`` needs them: converted from those of words, and binarised.

A link is a pair (i, j) of source word i and target word j, counted from 0. If two words are linked, every subword of
the one is linked to every subword of the other. fairseq silently drops the links of a sentence if one of them lies
beyond its end. The functions here check every link and name the line.
"""

import argparse
from itertools import zip_longest
from pathlib import Path
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

from fairseq_attn_plugin.analysis.alignment.links import Link, check_links, parse_alignment
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.lines import iter_lines, tokens
from fairseq_attn_plugin.text.subwords import SUBWORDS, word_count, words_of
from fairseq_attn_plugin.writing import PathLike, check_output, whole_text


class LinkCounts(NamedTuple):
    """Numbers of a file of alignments."""

    sentences: int
    links: int  # written
    unaligned: int  # sentences without links
    possible: int  # possible links that were dropped


def to_subwords(links: Iterable[Link], source_words: Sequence[int], target_words: Sequence[int]) -> List[Link]:
    """Sorted links between the subwords of linked words.

    Args:
        links: between words
        source_words: word index of each source subword, from :func:`~fairseq_attn_plugin.text.subwords.words_of`
        target_words: word index of each target subword

    Raises:
        ValueError: a link lies beyond the end of the sentence
    """
    links = set(links)
    check_links(links, (word_count(source_words), word_count(target_words)), remedy="")
    pieces: Tuple[Dict[int, List[int]], ...] = ({}, {})
    for side, words in zip(pieces, (source_words, target_words)):
        for piece, word in enumerate(words):
            side.setdefault(word, []).append(piece)
    return sorted((i, j) for word, other in links for i in pieces[0][word] for j in pieces[1][other])


def convert_file(
    alignments: PathLike,
    source: PathLike,
    target: PathLike,
    out: PathLike,
    subwords: str = "bpe",
) -> LinkCounts:
    """Writes the alignments of a corpus as links between subwords.

    Args:
        alignments: one line for each sentence pair with links ``i-j`` between words, as fast_align and eflomal write
            them; ``ipj``, only possible links, are left out
        source, target: the sides, split into subwords
        out: file to write; it appears when it is complete
        subwords: how words were split, one of ``SUBWORDS``

    Raises:
        OptionError: a file cannot be read, the files have different numbers of lines, a line does not fit its sentence,
            or no line has a link; the message names file and line
    """
    written = unaligned = possible = number = 0
    paths = alignments, source, target
    with whole_text(out, f"{out}: cannot write the alignments") as stream:
        for number, lines in enumerate(zip_longest(*map(iter_lines, paths)), 1):
            short = [str(path) for path, line in zip(paths, lines) if line is None]
            if short:
                raise OptionError(
                    f"{' and '.join(short)}: ends after line {number - 1}; each line of the three files must be a "
                    "sentence pair"
                )
            words = [_words_of(f"{path}, line {number}", line, subwords) for path, line in zip(paths[1:], lines[1:])]
            try:
                given = parse_alignment(lines[0])
                changed = to_subwords(given.sure, *words)
            except ValueError as error:
                raise OptionError(f"{alignments}, line {number}: {error}") from None
            stream.write(" ".join(f"{i}-{j}" for i, j in changed) + "\n")
            written += len(changed)
            unaligned += not changed
            possible += len(given.possible) - len(given.sure)
        if number and not written:
            raise OptionError(
                f"{alignments}: links no word of any of its {number} sentences"
                + (f"; {possible} links are only possible, as in 0p0" if possible else "")
            )
    return LinkCounts(number, written, unaligned, possible)


def _words_of(where: str, line: str, subwords: str) -> List[int]:
    try:
        return words_of(tokens(line), subwords)
    except ValueError as error:
        raise OptionError(f"{where}: {error}") from None


def add_conversion_options(parser: Any) -> None:
    """Adds the options that :func:`convert` reads to a parser or a group."""
    add = parser.add_argument
    add("--convert", action="store_true", help="FILE has links i-j of words, a line for each sentence pair")
    add("--source", metavar="FILE", help="source side, in subwords")
    add("--target", metavar="FILE", help="target side, in subwords")
    add("--subwords", choices=SUBWORDS, help="subword segmentation (default: bpe, the @@ of subword-nmt)")


def convert(args: argparse.Namespace) -> None:
    """Converts the links of ``args.file``, and prints how many there are."""
    for name in ("source", "target"):
        if not getattr(args, name):
            raise OptionError(f"--{name} is missing: name the {name} side of the corpus, in subwords")
    if not args.out:
        raise OptionError("--out is missing: name the file to write")
    check_output("--out", args.out, [args.file, args.source, args.target])
    counts = convert_file(args.file, args.source, args.target, args.out, args.subwords or "bpe")
    print(
        f"{args.out}: {counted(counts.links, 'link')} of {counted(counts.sentences, 'sentence pair')}, "
        f"{counts.unaligned} of them without links"
        + (f"; only possible links left out: {counts.possible}" if counts.possible else "")
    )


def binarize(path: str, prefix: str) -> None:
    """Converts a file of alignments into ``PREFIX.idx`` and ``PREFIX.bin``, which ``--load-alignments`` reads."""
    from fairseq import utils
    from fairseq.binarizer import AlignmentDatasetBinarizer, FileBinarizer

    for suffix in (".bin", ".idx"):
        Path(prefix + suffix).unlink(missing_ok=True)  # a symbolic link to another data folder must not be followed
    FileBinarizer.multiprocess_dataset(path, "mmap", AlignmentDatasetBinarizer(utils.parse_alignment), prefix)
