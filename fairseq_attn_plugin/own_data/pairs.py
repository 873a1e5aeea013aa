"""A user's sentence pairs: a table with tabs or ``.csv``, or two aligned files, plain or compressed; their splits."""

from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.corpora.files import read_text, split_lines
from fairseq_attn_plugin.corpora.parallel import SHARE, SPLITS, Pair, assign, normalize
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.lines import csv_rows

MOST_LINES = 20  # of a field in quotation marks; more are a mark without its end
FEWEST = 100  # pairs
HELD_OUT = 2000  # pairs of valid and of test are about as many at most
MOST_CHARACTERS = 1000  # of a sentence; a sentence of so many subwords is still read by every model


def read_pairs(
    files: Sequence[Path], languages: Sequence[str], columns: Optional[Sequence[int]] = None
) -> Tuple[List[Pair], str]:
    """The pairs, white space normalised, and a line that says what was read.

    Args:
        files: one table with a pair in each line, or the source file and the target file
        languages: of source and target
        columns: of a table, from 1. By default the first row names them, by the languages or as ``source`` and
            ``target``; otherwise they are the first two

    Raises:
        OptionError: a file is missing, damaged, empty or not UTF-8, has too few columns, or the two are not parallel
    """
    if len(files) > 2:
        raise OptionError(f"{', '.join(map(str, files))}: expected one table or two aligned files")
    texts = [_lines(path) for path in files]
    name = " and ".join(map(str, files))
    if len(files) == 1:
        pairs, about = _table(files[0], texts[0], languages, columns)
    elif columns:
        raise OptionError(f"--columns: is for one table; {name} are two files")
    elif all("\t" in line for lines in texts for line in lines if line.strip()):
        raise OptionError(f"{name}: have a tab in every line, as tables; put them together, as in cat A B > C")
    elif len(texts[0]) != len(texts[1]):
        raise OptionError(
            f"{files[0]} has {len(texts[0])} lines and {files[1]} has {len(texts[1])}: line n of one must be the "
            "translation of line n of the other"
        )
    else:
        pairs, about = list(zip(*texts)), f"{files[0]} ({languages[0]}) and {files[1]} ({languages[1]})"
    pairs = [(" ".join(source.split()), " ".join(target.split())) for source, target in pairs]
    if len(pairs) > 1 and all(source == target for source, target in pairs):
        raise OptionError(f"{name}: source and target are the same text in all lines; is one of them another file?")
    first = " | ".join(pairs[0]) if pairs else ""
    return pairs, f"{len(pairs):,} pairs of {about}; the first: {first}"


def _lines(path: Path) -> List[str]:
    if not path.is_file():
        raise OptionError(f"{path}: {'is a folder' if path.is_dir() else 'there is no such file'}; name a file of text")
    if path.suffix.lower() in (".zip", ".bz2", ".xlsx", ".xls", ".ods"):
        raise OptionError(f"{path}: is no text; unpack an archive and name the file in it, save a workbook as .csv")
    text = read_text(path)
    if "\r" in text.rstrip() and "\n" not in text:
        raise OptionError(f"{path}: ends lines by CR alone; write LF, as by tr '\\r' '\\n' < FILE > NEW")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise OptionError(f"{path}, line {line}: has a NUL character, and is no text; remove it")
    if not text.strip():
        raise OptionError(f"{path} is empty: expected sentence pairs")
    return split_lines(text)


def _table(
    path: Path, lines: Sequence[str], languages: Sequence[str], columns: Optional[Sequence[int]]
) -> Tuple[List[Pair], str]:
    rows = [(number, row) for number, row in _rows(path, lines) if any(map(str.strip, row))]
    if not rows:
        raise OptionError(f"{path} is empty: expected sentence pairs")
    head = [cell.strip().lower() for cell in rows[0][1]]
    sides = [{language.lower(), side} for language, side in zip(languages, ("source", "target"))]
    named = [next((place for place, cell in enumerate(head) if cell in side), -1) for side in sides]
    has_names = min(named) >= 0 and named[0] != named[1]
    if has_names:
        del rows[0]
    source, target = [column - 1 for column in columns] if columns else named if has_names else (0, 1)
    pairs = []
    for number, row in rows:
        if len(row) <= max(source, target):
            raise OptionError(
                f"{path}, line {number}: has {counted(len(row), 'column')}, no column "
                f"{max(source, target) + 1}: expected a sentence, a tab and its translation, or two files, one for "
                "each language"
            )
        pairs.append((row[source], row[target]))
    for column, cells in zip((source, target), zip(*pairs)):
        if not columns and sum(cell.strip().isdigit() for cell in cells) > len(cells) / 2:
            raise OptionError(
                f"{path}: column {column + 1} holds numbers; choose two columns by --columns, as in --columns 2,4"
            )
    return pairs, f"{path}, columns {source + 1} ({languages[0]}) and {target + 1} ({languages[1]})"


def _rows(path: Path, lines: Sequence[str]) -> Iterator[Tuple[int, List[str]]]:
    """The rows of a table with their line numbers. Quotation marks enclose fields in ``.csv`` alone."""
    if path.name.removesuffix(".gz").removesuffix(".xz").lower().endswith(".csv"):
        return csv_rows(path, lines, lines[:1000], MOST_LINES)
    return ((number, line.split("\t")) for number, line in enumerate(lines, 1))


def split(given: Dict[str, Optional[List[Pair]]]) -> Tuple[Dict[str, List[Pair]], List[str]]:
    """The splits, and lines about what was left out. No sentence of valid or test is in train, up to case and
    punctuation.

    Args:
        given: the pairs of ``train``, and of ``valid`` and ``test`` where the user has them; otherwise they are taken
            out of ``train``, about 5 % each: groups of pairs with a common sentence, chosen by a hash

    Raises:
        OptionError: there are too few pairs
    """
    notes: List[str] = []

    def keep(name: str, pairs: List[Pair], kept: List[Pair], why: str) -> List[Pair]:
        if len(kept) < len(pairs):
            notes.append(f"{name}: {len(pairs) - len(kept):,} pairs are left out, which {why}")
        return kept

    parts: Dict[str, List[Pair]] = {}
    for name in ("test", "valid", "train"):
        pairs = given.get(name)
        if pairs is None:
            continue
        pairs = keep(name, pairs, [pair for pair in pairs if all(pair)], "have an empty side")
        short = [pair for pair in pairs if max(map(len, pair)) <= MOST_CHARACTERS]
        pairs = keep(name, pairs, short, f"have more than {MOST_CHARACTERS} characters on a side")
        if name == "train":
            pairs = keep(name, pairs, list(dict.fromkeys(pairs)), "occur before")
        if parts:
            taken = [{normalize(pair[side]) for part in parts.values() for pair in part} for side in (0, 1)]
            free = [pair for pair in pairs if not any(normalize(pair[side]) in taken[side] for side in (0, 1))]
            pairs = keep(name, pairs, free, f"have a sentence of {' or '.join(reversed(parts))}")
        parts[name] = pairs
    if len(parts["train"]) < FEWEST:
        few = f"{len(parts['train'])} different sentence pairs are too few: expected at least {FEWEST}"
        raise OptionError("; ".join([few, *notes]))
    wanted = [name for name in ("valid", "test") if name not in parts]
    if wanted:
        found = assign(parts["train"], min(SHARE, 100 * HELD_OUT / len(parts["train"])))
        parts["train"] = [pair for name in SPLITS if name not in wanted for pair in found[name]]
        parts.update({name: found[name] for name in wanted})
    for name in SPLITS:
        if not parts[name]:
            raise OptionError(
                f"the {name} split is empty: too few sentence pairs that share no sentence; give --valid and --test"
            )
    return {name: parts[name] for name in SPLITS}, notes
