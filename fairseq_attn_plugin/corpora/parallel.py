"""One split of a parallel corpus: read, check, tokenise and write; cut long sentences or drop long pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Sequence, Tuple

from .errors import CorpusError
from .files import check_folder, find, note, note_fewer, read_lines, read_pair, write_lines
from .tokens import bare_words, tokenize

__all__ = ["AS_IT_IS", "Treatment", "cut_split", "drop_split", "import_split"]


@dataclass(frozen=True)
class Treatment:
    """What happens to the sentences of a split.

    Attributes:
        tokenize: by Moses' rules
        keep_punctuation: tokenise without normalising punctuation
        keep_characters: tokenise without escaping special characters
        bare_words: keep words between white space, without the punctuation at their ends
        lowercase: after tokenisation
        drop_empty: drop pairs with an empty side
        raw: also write the original text to ``SPLIT.raw.LANGUAGE``
    """

    tokenize: bool = False
    keep_punctuation: bool = False
    keep_characters: bool = False
    bare_words: bool = False
    lowercase: bool = False
    drop_empty: bool = False
    raw: bool = False


AS_IT_IS = Treatment()


def import_split(
    folder: Path,
    files: Sequence[str],
    languages: Sequence[str],
    to: Path,
    *,
    treatment: Treatment = AS_IT_IS,
    tokenized: Optional[Sequence[str]] = None,
    at_least: int = 1,
    strict: bool = False,
    expected: str = "",
    jobs: int = 1,
) -> None:
    """Reads both sides of a split and writes them to ``TO.LANGUAGE``, one sentence per line.

    Args:
        folder: of the published files
        files: their names without ``.gz``; alternatives are ``a|b``
        languages: of the two files
        to: prefix of the written files
        treatment: of the sentences
        tokenized: names of tokenised versions; these are read instead if both exist
        at_least: number of sentence pairs in the published split
        strict: whether fewer pairs are an error; otherwise they are a note
        expected: what the folder must contain, for the message about a missing file
        jobs: number of processes for tokenisation

    Raises:
        CorpusError: the files are missing, damaged, not parallel or too short
    """
    check_folder(folder)
    is_tokenized = tokenized is not None and all(find(folder, name) for name in tokenized)
    sides = read_pair(folder, tokenized if is_tokenized and tokenized else files, expected)
    if len(sides[0]) < at_least:
        report = f"{files[0]} holds {len(sides[0])} sentence pairs, the published corpus at least {at_least}"
        note_fewer(report, strict)
    # the untouched references are for detokenised scores; a folder with tokenised files alone has none
    if treatment.raw and (not is_tokenized or all(find(folder, name) for name in files)):
        raw = read_pair(folder, files) if is_tokenized else sides
        if len(raw[0]) != len(sides[0]):
            raise CorpusError(f"{files[0]} and {tokenized[0] if tokenized else ''} differ in length")
        for language, lines in zip(languages, raw):
            write_lines(Path(f"{to}.raw.{language}"), lines)
    if treatment.drop_empty:
        sides = _without_empty(sides, files[0])
    for language, lines in zip(languages, sides):
        if treatment.tokenize and not is_tokenized:
            lines = tokenize(lines, language, jobs, not treatment.keep_punctuation, not treatment.keep_characters)
        if treatment.bare_words:
            lines = list(map(bare_words, lines))
        if treatment.lowercase:
            lines = [line.lower() for line in lines]
        write_lines(Path(f"{to}.{language}"), lines)


def _without_empty(sides: Tuple[list, list], name: str) -> Tuple[list, list]:
    kept = [pair for pair in zip(*sides) if all(pair)]
    if len(kept) < len(sides[0]):
        note(f"dropped {len(sides[0]) - len(kept)} pairs with an empty side")
    if not kept:
        raise CorpusError(f"{name} has no pair with words on both sides")
    return [pair[0] for pair in kept], [pair[1] for pair in kept]


def cut_split(split: Path, languages: Sequence[str], length: int) -> None:
    """Cuts the sentences of both sides to ``length`` tokens."""
    for language in languages:
        path = Path(f"{split}.{language}")
        lines = read_lines(path)
        longer = sum(len(line.split()) > length for line in lines)
        write_lines(path, (" ".join(line.split()[:length]) for line in lines))
        print(f"note: cut {longer} of {len(lines)} lines of {path.name} to {length} tokens", flush=True)


def drop_split(split: Path, languages: Sequence[str], length: int) -> None:
    """Drops the pairs with more than ``length`` tokens on a side.

    Raises:
        CorpusError: no pair is left
    """
    paths = [Path(f"{split}.{language}") for language in languages]
    sides = read_pair(paths[0].parent, [path.name for path in paths])
    kept = [pair for pair in zip(*sides) if max(len(side.split()) for side in pair) <= length]
    if not kept:
        raise CorpusError(f"every pair of {split} has more than {length} tokens on a side")
    for path, lines in zip(paths, zip(*kept)):
        write_lines(path, lines)
    print(f"note: dropped {len(sides[0]) - len(kept)} pairs of more than {length} tokens", flush=True)
