"""Documents of sentences of words: reading them, and the lines that fairseq-preprocess binarises.

A line is a document in which every sentence ends with ``</s>``, fairseq's own end of sentence, which fairseq-preprocess
adds to the last one. It needs no place in the vocabulary, no threshold can lose it, and no model has to be told of it:

    the film is long . </s> i liked it .

Files to read, plain or gzipped (``.gz``), in UTF-8:

JSONL (``.jsonl``, ``.json``)
    ``{"label": "pos", "sentences": ["the film is long .", ["i", "liked", "it", "."]]}`` in each line, or ``"text"`` in
    the place of ``"sentences"``; ``"id"`` (or ``"name"``) is kept; the label may be missing where none is needed
text (anything else)
    ``LABEL<TAB>text`` in each line, or the text alone where no label is needed

Text is cut into sentences at a separator if one is given, otherwise after ``.``, ``!``, ``?`` and at ends of lines.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import re
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.writing import whole_text

__all__ = [
    "Document",
    "END",
    "Reading",
    "add_reading_options",
    "class_names",
    "documents_of",
    "reading_from",
    "split_documents",
    "split_sentences",
    "to_line",
    "write_documents",
]


END = "</s>"
# what fairseq's dictionary means by these is no word
_SPECIAL = {symbol: symbol.replace("<", "&lt;").replace(">", "&gt;") for symbol in ("<s>", "<pad>", "</s>", "<unk>")}
# the end of a sentence with the quotes and brackets that close it, be they tokens of their own or not
_SENTENCE_END = re.compile(r"""(?:[.!?。！？]\s?)+(?:["'”’»)\]}]+(?=\s|$))*\s*|\n+""")
PathLike = Union[str, "os.PathLike[str]"]


@dataclass(frozen=True)
class Document:
    """``sentences`` are lists of words; sentences without words are left out when a document is read."""

    sentences: List[List[str]]
    label: Optional[str] = None
    id: Optional[str] = None
    line: int = field(default=0, compare=False)  # of its file, from 1

    @property
    def words(self) -> int:
        return sum(map(len, self.sentences))


class Reading(NamedTuple):
    """How text becomes words."""

    separator: Optional[str] = None  # between the sentences of a text (default: punctuation)
    lowercase: bool = False
    tokenize: bool = False  # by Moses' rules for English; otherwise at white space


AS_IT_IS = Reading()


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """The options of :class:`Reading`, which must be the same for training and prediction."""
    add = parser.add_argument
    add("--separator", metavar="TEXT", help="what stands between the sentences of a text (default: punctuation)")
    add("--lowercase", action="store_true", help="lower-case the words")
    add("--tokenize", action="store_true", help="tokenise text by Moses' rules (default: words are between spaces)")


def reading_from(args: argparse.Namespace) -> Reading:
    if args.separator is not None and not args.separator.strip():
        raise OptionError(f"--separator {args.separator!r}: must be more than white space")
    return Reading(args.separator, args.lowercase, args.tokenize)


def split_sentences(text: str, separator: Optional[str] = None) -> List[str]:
    """Sentences of a text: between separators, or up to ``.``, ``!``, ``?`` or the end of a line.

    Without a separator this is a rule of thumb: a point ends a sentence where white space or the end follows it, in an
    abbreviation, too, but not where ``.`` stands within a word or a number.
    """
    if separator is not None:
        return [part.strip() for part in text.split(separator) if part.strip()]
    parts, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        # 3.5, e.g, www.x.org: a letter or digit follows at once
        if match.end() < len(text) and not match.group()[-1].isspace() and match.group()[-1] in ".!?":
            continue
        parts.append(text[start : match.end()])
        start = match.end()
    parts.append(text[start:])
    return [" ".join(part.split()) for part in parts if part.strip()]


def _word_splitter(reading: Reading) -> Callable[[str], List[str]]:
    if not reading.tokenize:
        return lambda text: (text.lower() if reading.lowercase else text).split()
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang="en")

    def words(text: str) -> List[str]:
        return tokenizer.tokenize(text.lower() if reading.lowercase else text, escape=False)

    return words


def documents_of(path: PathLike, reading: Reading = AS_IT_IS, labels: bool = True) -> Iterator[Document]:
    """The documents of a JSONL or text file, as a stream.

    Args:
        path: the file; the module's text says what is in it
        reading: how text becomes words
        labels: whether every document must have a label

    Raises:
        OptionError: the file cannot be read or has no document, or a line is none (it is named)
    """
    split = _word_splitter(reading)
    path = Path(path)
    suffix = path.with_suffix("").suffix if path.suffix == ".gz" else path.suffix
    parse = _from_json if suffix in (".jsonl", ".json") else _from_text
    number, found = 0, False
    try:
        with contextlib.ExitStack() as stack:
            if path.suffix == ".gz":
                stream: Any = stack.enter_context(gzip.open(path, "rt", encoding="utf-8-sig", newline="\n"))
            else:
                stream = stack.enter_context(open(path, encoding="utf-8-sig", newline="\n"))
            for number, line in enumerate(stream, start=1):
                if not line.strip():
                    continue
                try:
                    document = parse(line.rstrip("\r\n"), reading, split)
                    if document.label is None and labels:
                        raise ValueError("has no label; " + _LABEL_HINT[parse is _from_text])
                    if document.label is not None and len(document.label.split()) != 1:
                        raise ValueError(f"the label {document.label!r} must be one word without spaces")
                except ValueError as error:
                    raise OptionError(f"{path}, line {number}: {error}") from None
                found = True
                yield replace(document, line=number)
    except UnicodeDecodeError as error:
        raise OptionError(f"{path}, after line {number}: is not UTF-8 ({error.reason})") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OptionError(f"{path}: is damaged or no gzip file: {error}") from None
    except OSError as error:
        raise OptionError(f"{path}: cannot be read: {error.strerror or error}") from None
    if not found:
        raise OptionError(f"{path}: is empty; must hold a document in each line")


_LABEL_HINT = ('must be {"label": "...", "sentences": [...]}', "must be LABEL<TAB>text")


def _from_text(line: str, reading: Reading, split: Callable[[str], List[str]]) -> Document:
    label, tab, text = line.rpartition("\t") if line.count("\t") == 1 else ("", "", line)
    if line.count("\t") > 1:
        raise ValueError(f"has {line.count(chr(9))} tabs; must be LABEL<TAB>text or the text alone")
    return Document(_sentences(split_sentences(text, reading.separator), split), label.strip() if tab else None)


def _from_json(line: str, reading: Reading, split: Callable[[str], List[str]]) -> Document:
    try:
        values = json.loads(line)
        # half of a surrogate pair is no character, and cannot be written
        json.dumps(values, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"has half of a surrogate pair, {error.object[error.start]!r}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is no JSON ({error})") from None
    if not isinstance(values, dict):
        raise ValueError('must be an object, {"label": "...", "sentences": [...]}')
    label = values.get("label")
    if label is not None and (isinstance(label, (list, dict, float, bool)) or not str(label).strip()):
        raise ValueError(f"the label {label!r} must be a word or a whole number")
    if ("sentences" in values) == ("text" in values):
        raise ValueError('must have either "sentences" or "text"')
    if "text" in values:
        if not isinstance(values["text"], str):
            raise ValueError('"text" must be a string')
        sentences: List[Any] = list(split_sentences(values["text"], reading.separator))
    else:
        sentences = values["sentences"]
        if not isinstance(sentences, list):
            raise ValueError('"sentences" must be a list of strings, or of lists of words')
    name = values.get("id", values.get("name"))
    return Document(
        _sentences(sentences, split),
        None if label is None else str(label).strip(),
        None if name is None else str(name),
    )


def _sentences(sentences: List[Any], split: Callable[[str], List[str]]) -> List[List[str]]:
    result = []
    for sentence in sentences:
        if isinstance(sentence, list) and all(isinstance(word, str) for word in sentence):
            sentence = " ".join(sentence)
        if not isinstance(sentence, str):
            raise ValueError(f"a sentence must be a string or a list of words, not {str(sentence)[:40]}")
        words = [_SPECIAL.get(word, word) for word in split(sentence)]
        if words:
            result.append(words)
    return result


def to_line(sentences: Iterable[Iterable[str]]) -> str:
    """The line of a document; fairseq-preprocess adds the last ``</s>``."""
    return f" {END} ".join(" ".join(words) for words in sentences)


def split_documents(
    documents: Iterable[Document], shares: Dict[str, float], rest: str = "train", seed: int = 1
) -> Dict[str, List[Document]]:
    """Documents drawn at random into splits, each split in the order in which they came.

    Args:
        documents: all of them
        shares: of each split but ``rest``, its share of every label's documents, rounded down; equal documents go where
            the first of them goes
        rest: the split that has all others
        seed: of the draw

    Raises:
        OptionError: the shares leave nothing for ``rest``, or a split is empty
    """
    if any(share <= 0 for share in shares.values()) or sum(shares.values()) >= 1:
        raise OptionError(f"shares {shares}: must be above 0 and leave something for {rest}")
    every = list(documents)
    by_label: Dict[Optional[str], List[int]] = {}
    for number, document in enumerate(every):
        by_label.setdefault(document.label, []).append(number)
    split_of = [rest] * len(every)
    draw = random.Random(seed)
    for label in sorted(by_label, key=str):
        numbers = by_label[label]
        draw.shuffle(numbers)
        start = 0
        for split, share in shares.items():
            end = start + int(share * len(numbers))
            for number in numbers[start:end]:
                split_of[number] = split
            start = end
    first: Dict[str, int] = {}
    for number, document in enumerate(every):
        # what is there twice must not be in training and test
        split_of[number] = split_of[first.setdefault(to_line(document.sentences), number)]
    result: Dict[str, List[Document]] = {split: [] for split in (rest, *shares)}
    for split, document in zip(split_of, every):
        result[split].append(document)
    for split, part in result.items():
        if not part:
            raise OptionError(f"{len(every)} documents are too few: the split {split} is empty")
    return result


def write_documents(documents: Iterable[Document], prefix: PathLike) -> Tuple[int, int, int]:
    """``PREFIX.input0`` and ``PREFIX.label``, a line for each document; returns documents, sentences and words.

    Raises ``OptionError`` if they cannot be written.
    """
    counts = [0, 0, 0]
    failures = [f"{prefix}.{side}: cannot be written" for side in ("input0", "label")]
    try:
        Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"--to {Path(prefix).parent}: cannot be made: {error.strerror or error}") from None
    with whole_text(f"{prefix}.input0", failures[0]) as lines, whole_text(f"{prefix}.label", failures[1]) as labels:
        for document in tqdm(documents, desc=str(prefix), unit=" documents", disable=None, leave=False):
            lines.write(to_line(document.sentences) + "\n")
            labels.write((document.label or "") + "\n")
            for place, number in enumerate((1, len(document.sentences), document.words)):
                counts[place] += number
    return counts[0], counts[1], counts[2]


def class_names(label_dictionary: Any) -> List[str]:
    """The labels in the order of a model's classes: the symbols of ``label/dict.txt`` but those that fairseq adds."""
    symbols = label_dictionary.symbols[label_dictionary.nspecial :]
    return [symbol for symbol in symbols if symbol != "<mask>" and not symbol.startswith("madeupword")]
