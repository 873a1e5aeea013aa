"""Replaces unknown words in the output of fairseq-generate or -interactive by the source words aligned to them.

    fairseq-generate DATA --path model.pt --print-alignment | fairseq-attn replace-unk --lexicon lexicon.tsv > out

The command is a filter: it changes only the hypotheses (lines H and D) that contain ``<unk>``. Alignments may be hard
or soft. fairseq also prints ``<unk>`` for unknown source words; ``--source`` gives the original words, a line for each
sentence in the order of the corpus. With BPE, give ``--remove-bpe`` here and not to fairseq-generate, since alignments
are between subwords. :func:`fairseq_attn_plugin.text.unknown_words.replace_unknown` defines the replacement.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Dict, Iterable, Iterator, List, Mapping, Optional, Sequence

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import BPE_MARK, merge_subwords, word_of_subword
from fairseq_attn_plugin.text.unknown_words import UNKNOWN, Replaced, positions_of, replace_unknown

__all__ = ["Count", "replace_lines"]


_LINE = re.compile(r"([A-Z])-(\d{1,18})\t")
_HARD = re.compile(r"(?:\d+-\d+(?: |$))*")
_PIECE_END = re.compile(re.escape(BPE_MARK) + r"( |$)")


@dataclass
class Count:
    """Numbers of unknown words in the hypotheses, by their replacement."""

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
    """The lines of fairseq-generate's output, with the unknown words of the hypotheses replaced.

    A hypothesis with unknown words is held back until its alignment is read.

    Args:
        lines: with line ends
        lexicon: {source word: translation}
        source: the source text, tokenised as for the model and without ``<unk>`` (BPE may be split or not)
        remove_bpe: join the subwords in sources, references and hypotheses
        count: receives the numbers of replaced words
        name: of the lines, for messages
        source_name: of the source, for messages

    Raises:
        OptionError: a hypothesis with unknown words has no source, alignment or words, or its alignment does not fit
    """
    count = Count() if count is None else count
    finish = _join if remove_bpe else str
    held: List[str] = []  # lines since a hypothesis with unknown words
    where = kind = number = ""
    read: Dict[str, str] = {}  # {number: source} of the last sentence
    for place, line in enumerate(lines, 1):
        match = _LINE.match(line)
        kind, number = match.groups() if match is not None else ("", "")
        if held and kind in ("S", "T", "H"):
            raise _no_alignment(where, held[0])
        if kind == "S":
            read = {number: line[match.end() :]}  # type: ignore[union-attr]
        if kind == "H" and UNKNOWN in line.split("\t", 2)[-1].split():
            where = f"{name}, line {place}"
            if line.count("\t") < 2:
                raise OptionError(f"{where}: must be H-{number}, a score and words, separated by tabs")
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
    """The source tokens of a sentence: from the text with the original words if there is one, or as printed."""
    tokens = None if printed is None else printed.split()
    if text is None:
        if tokens is None:
            raise OptionError(f"{where}: no line S-{number} precedes H-{number}; give the text with --source")
        return tokens
    if int(number) >= len(text):
        raise OptionError(f"{text_name}: has {len(text)} lines, but {where} is of sentence {number}, counted from 0")
    words = text[int(number)].split()
    if tokens is None or len(words) == len(tokens):
        return words
    places = word_of_subword(tokens)
    if len(words) != len(merge_subwords(tokens)):
        raise OptionError(
            f"{text_name}, line {int(number) + 1}: has {len(words)} words, S-{number} has {len(tokens)} tokens; give "
            "exactly the text that was binarised"
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
        raise OptionError(f"{where}: A-{number} is not an alignment of fairseq-generate --print-alignment") from None
    if not fits:
        raise OptionError(
            f"{where}: H-{number} has {targets} tokens and its source {sources}, which its alignment does not fit; run "
            "fairseq-generate without --remove-bpe and --post-process, and give --remove-bpe to this command"
        )
    return positions


def _rewritten(line: str, tokens: Sequence[str], done: Replaced) -> str:
    """A line with the replaced words if it is a line H or D of the hypothesis, else the line itself."""
    parts = line.rstrip("\r\n").split("\t", 2)
    if line[:2] not in ("H-", "D-") or len(parts) < 3:
        return line
    end = line[len("\t".join(parts)) :]
    if parts[2].split() == list(tokens):
        return "\t".join([*parts[:2], " ".join(done.tokens)]) + end
    # detokenised: the unknown words are those of the tokens, in the same order
    pieces = parts[2].split(UNKNOWN)
    if len(pieces) != len(done.words) + 1:
        return line
    text = pieces[0]
    for word, piece in zip(done.words, pieces[1:]):
        text = text.rstrip(" ") + piece if not word else text + word.replace(BPE_MARK, "") + piece
    return "\t".join([*parts[:2], text]) + end


def _join(line: str) -> str:
    return _PIECE_END.sub("", line) if line[:2] in ("S-", "T-", "H-", "D-") else line
