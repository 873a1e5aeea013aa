"""Unknown words in the output of fairseq-generate or -interactive, replaced by what they were aligned to.

    fairseq-generate DATA --path model.pt --print-alignment | attn-analysis replace-unk --lexicon lexicon.tsv > out

A filter: line by line, every line that has no ``<unk>`` of a hypothesis (H, D) unchanged. Alignments may be hard or
soft. fairseq prints ``<unk>`` for unknown source words, too: ``--source`` has the words themselves, a line for each
sentence of the corpus, in its order. With BPE, leave ``--remove-bpe`` of fairseq-generate out, since alignments are of
subwords, and give it here. How a word is replaced is said by
:func:`fairseq_attn_plugin.text.unknown_words.replace_unknown`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from dataclasses import dataclass
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, TextIO

from fairseq_attn_plugin._writing import whole_text
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.lexicon import best_translations, read_lexicon
from fairseq_attn_plugin.text.unknown_words import UNKNOWN, Replaced, positions_of, replace_unknown

from .alignment import BPE_MARK, merge_subwords, word_of_subword
from .outputs import read_lines

__all__ = ["Count", "replace_lines"]

_LINE = re.compile(r"([A-Z])-(\d+)\t")
_HARD = re.compile(r"(?:\d+-\d+(?: |$))*")
_PIECE_END = re.compile(re.escape(BPE_MARK) + r"( |$)")


@dataclass
class Count:
    """What was done with the unknown words of the hypotheses."""

    from_lexicon: int = 0
    copied: int = 0
    left: int = 0  # aligned to nothing, or to an unknown source word

    def __str__(self) -> str:
        replaced = self.from_lexicon + self.copied
        text = f"replaced {replaced:,} of {replaced + self.left:,} {UNKNOWN}"
        if replaced:
            text += f", {self.from_lexicon:,} by the lexicon, {self.copied:,} by the source word"
        return text


def replace_lines(
    lines: Iterable[str],
    lexicon: Mapping[str, str],
    source: Optional[Sequence[str]] = None,
    remove_bpe: bool = False,
    count: Optional[Count] = None,
    name: str = "standard input",
    source_name: str = "--source",
) -> Iterator[str]:
    """The lines of fairseq-generate's output, those of hypotheses without unknown words.

    A hypothesis that has some is held back until its alignment is read.

    Args:
        lines: with their ends
        lexicon: {source word: translation}
        source: the text of the source, as the model reads it but with its unknown words (of BPE, split or not)
        remove_bpe: join the subwords in sources, references and hypotheses
        count: what to add to
        name: of the lines, for messages
        source_name: of the source, for messages

    Raises:
        OptionError: a hypothesis with unknown words has no source, no alignment, or one of other lengths
    """
    count = Count() if count is None else count
    finish = _join if remove_bpe else str
    held: List[str] = []  # the lines from that of a hypothesis with unknown words on
    where = kind = number = ""
    read: Dict[str, str] = {}  # {number: its source}, of the last sentence
    for place, line in enumerate(lines, 1):
        match = _LINE.match(line)
        kind, number = match.groups() if match is not None else ("", "")
        if held and kind in ("S", "T", "H"):
            raise _no_alignment(where, held[0])
        if kind == "S":
            read = {number: line[match.end() :]}  # type: ignore[union-attr]
        if kind == "H" and UNKNOWN in line.split("\t", 2)[-1].split():
            where = f"{name}, line {place}"
            held.append(line)
        elif held and kind == "A" and held[0].startswith(f"H-{number}\t"):
            tokens = held[0].rstrip("\r\n").split("\t", 2)[2].split()
            source_tokens = _source(number, read.get(number), source, where, source_name)
            positions = _positions(line[match.end() :], len(tokens), len(source_tokens), where, number)  # type: ignore[union-attr]
            done = replace_unknown(tokens, source_tokens, positions, lexicon)
            count.from_lexicon += done.from_lexicon
            count.copied += done.copied
            count.left += done.tokens.count(UNKNOWN)
            for one in held:
                yield finish(_rewritten(one, tokens, done))
            held.clear()
            yield line
        elif held:
            held.append(line)
        else:
            yield finish(line)
    if held:
        raise _no_alignment(where, held[0])


def _no_alignment(where: str, hypothesis: str) -> OptionError:
    number = hypothesis[2 : hypothesis.index("\t")]
    return OptionError(
        f"{where}: H-{number} has {UNKNOWN}, and no line A-{number} follows; run fairseq-generate with "
        "--print-alignment"
    )


def _source(
    number: str, printed: Optional[str], text: Optional[Sequence[str]], where: str, text_name: str
) -> Sequence[str]:
    """The source tokens of a sentence: those printed, or of the text that has its unknown words, too."""
    tokens = None if printed is None else printed.split()
    if text is None:
        if tokens is None:
            raise OptionError(f"{where}: no line S-{number} comes before H-{number}; give the text by --source")
        return tokens
    if int(number) >= len(text):
        raise OptionError(f"{text_name}: has {len(text)} lines, {where} is of sentence {number}, counted from 0")
    words = text[int(number)].split()
    if tokens is None or len(words) == len(tokens):
        return words
    places = word_of_subword(tokens)
    if len(words) != len(merge_subwords(tokens)):
        raise OptionError(
            f"{text_name}, line {int(number) + 1}: has {len(words)} words, S-{number} has {len(tokens)} tokens; give "
            "the text that was binarised, as it was"
        )
    return [words[place] if places.count(place) == 1 else token for token, place in zip(tokens, places)]


def _positions(text: str, targets: int, sources: int, where: str, number: str) -> Mapping[int, int]:
    """The alignment in a line A, checked against the numbers of tokens."""
    text = text.strip()
    try:
        if _HARD.fullmatch(text):
            pairs = [tuple(map(int, item.split("-"))) for item in text.split()]
            fits = not pairs or (
                max(pair[1] for pair in pairs) == targets - 1 and max(pair[0] for pair in pairs) < sources
            )
            positions = positions_of(pairs)
        else:
            rows = [row.split(",") for row in text.split()]
            fits = len(rows) == targets + 1 and all(len(row) == sources + 1 for row in rows)
            positions = positions_of(rows)
    except ValueError:
        raise OptionError(f"{where}: A-{number} is no alignment of fairseq-generate --print-alignment") from None
    if not fits:
        raise OptionError(
            f"{where}: H-{number} has {targets} tokens and its source {sources}, which its alignment does not fit; run "
            "fairseq-generate without --remove-bpe and --post-process, and give --remove-bpe here"
        )
    return positions


def _rewritten(line: str, tokens: Sequence[str], done: Replaced) -> str:
    """A line H or D of a hypothesis with the replaced words; others as they are."""
    parts = line.rstrip("\r\n").split("\t", 2)
    if line[:2] not in ("H-", "D-") or len(parts) < 3:
        return line
    end = line[len("\t".join(parts)) :]
    if parts[2].split() == list(tokens):
        return "\t".join([*parts[:2], " ".join(done.tokens)]) + end
    # detokenized: the unknown words are those of the tokens, in the same order
    pieces = parts[2].split(UNKNOWN)
    if len(pieces) != len(done.words) + 1:
        return line
    text = pieces[0]
    for word, piece in zip(done.words, pieces[1:]):
        text = text.rstrip(" ") + piece if not word else text + word.replace(BPE_MARK, "") + piece
    return "\t".join([*parts[:2], text]) + end


def _join(line: str) -> str:
    return _PIECE_END.sub("", line) if line[:2] in ("S-", "T-", "H-", "D-") else line


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file", nargs="?", metavar="FILE", help="output of fairseq-generate --print-alignment (default: standard input)"
    )
    parser.add_argument(
        "--lexicon",
        metavar="FILE",
        help="translations, as attn-analysis lexicon writes them (default: copy source words)",
    )
    parser.add_argument(
        "--source",
        metavar="TEXT",
        help="source text, for the words that fairseq prints as <unk> (default: its lines S)",
    )
    parser.add_argument("--remove-bpe", action="store_true", help="join subwords after the replacement")
    parser.add_argument("--out", metavar="FILE", help="file to write (default: standard output)")


def run(args: argparse.Namespace) -> None:
    lexicon = {} if args.lexicon is None else best_translations(read_lexicon(args.lexicon, "--lexicon"))
    source = None if args.source is None else read_lines(args.source)
    count, name = Count(), args.file or "standard input"
    with contextlib.ExitStack() as stack:
        if args.file is None:
            stream: TextIO = _utf8(sys.stdin)
        else:
            try:
                stream = stack.enter_context(open(args.file, encoding="utf-8", newline=""))
            except OSError as error:
                raise OptionError(f"{args.file}: cannot be read: {error.strerror or error}") from None
        out = _utf8(sys.stdout)
        if args.out is not None:
            out = stack.enter_context(whole_text(args.out, f"--out {args.out}: cannot be written"))
        lines = replace_lines(stream, lexicon, source, args.remove_bpe, count, name, f"--source {args.source}")
        try:
            for line in lines:
                out.write(line)
                if args.out is None and line.startswith("A-"):  # the end of a sentence, for somebody who is waiting
                    out.flush()
        except UnicodeDecodeError as error:
            raise OptionError(f"{name}: is not UTF-8: {error.reason}") from None
    hint = f" ({count.left:,} were aligned to unknown source words: give --source)" if count.left and not source else ""
    sys.stderr.write(f"{count}{hint}\n")


def _utf8(stream: Any) -> TextIO:
    """A standard stream that reads or writes UTF-8 and leaves the ends of lines alone, whatever the locale."""
    if hasattr(stream, "reconfigure"):
        stream.reconfigure(encoding="utf-8", newline="")
    return stream
