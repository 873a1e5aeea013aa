"""Reads documents, and writes them as the lines that fairseq-preprocess binarises.

A document is a list of sentences, a sentence is a list of words. A line for fairseq-preprocess has ``</s>``, fairseq's
own end of sentence, after every sentence except the last one, which fairseq-preprocess ends itself:

    the film is long . </s> i liked it .

``</s>`` is always in the vocabulary, whatever its threshold, and every model knows it.

Input files are in UTF-8, plain, ``.gz`` or ``.xz``, in one of three formats:

JSONL (``.jsonl``, ``.json``)
    Each line is ``{"label": "pos", "sentences": ["the film is long .", ["i", "liked", "it", "."]]}``. ``"text"`` may
    replace ``"sentences"``. ``"id"`` (or ``"name"``) is kept. ``"label"`` may be missing if no label is needed.
text (any other suffix)
    Each line is ``LABEL<TAB>text``, or only the text if no label is needed.
table (``.csv``)
    The same with commas, semicolons or tabs, where a text in quotation marks may have line ends.

The first row of a text or table may name its columns ``label``, ``text``, ``id``, and others that are not read.

A text is split into sentences by :func:`~fairseq_attn_plugin.text.reading.split_sentences`.
"""

import hashlib
import random
import sys
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Optional, Tuple

from tqdm import tqdm

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.counting import counted
from fairseq_attn_plugin.text.lines import csv_rows, iter_lines, parse_json
from fairseq_attn_plugin.text.reading import AS_IT_IS, Reading, split_sentences, word_splitter
from fairseq_attn_plugin.writing import PathLike, make_folder, whole_text

END = "</s>"
# words that look like special symbols of fairseq's dictionary are escaped
_SPECIAL = {symbol: symbol.replace("<", "&lt;").replace(">", "&gt;") for symbol in ("<s>", "<pad>", "</s>", "<unk>")}


@dataclass(frozen=True)
class Document:
    """A document. Reading drops sentences without words."""

    sentences: List[List[str]]
    label: Optional[str] = None
    id: Optional[str] = None
    line: int = field(default=0, compare=False)  # number of the line in its file, from 1

    @property
    def words(self) -> int:
        return sum(map(len, self.sentences))


def documents_of(path: PathLike, reading: Reading = AS_IT_IS, labels: bool = True) -> Iterator[Document]:
    """Yields the documents of a file, one at a time.

    Args:
        path: file in one of the formats of the module's docstring
        reading: rules that split text into words
        labels: whether every document must have a label

    Raises:
        OptionError: the file cannot be read, has no document, or has a malformed line, which the message names
    """
    split = word_splitter(reading)
    path = Path(path)
    suffix = (path.with_suffix("") if path.suffix in (".gz", ".xz") else path).suffix.lower()
    is_json, found = suffix in (".jsonl", ".json"), False
    parse: Callable[[Any, Reading, Any], Document] = _from_json if is_json else _from_row
    for number, entry in _lines(path) if is_json else _rows(path, suffix == ".csv"):
        try:
            document = parse(entry, reading, split)
            if document.label is None and labels:
                raise ValueError("has no label; " + _LABEL_HINT[not is_json])
            if document.label is not None and len(document.label.split()) != 1:
                raise ValueError(f"the label {document.label[:40]!r} must be one word without spaces")
            if document.label in _SPECIAL:
                raise ValueError(f"the label {document.label} is a symbol of every vocabulary; choose another name")
        except ValueError as error:
            raise OptionError(f"{path}, line {number}: {error}") from None
        found = True
        yield replace(document, line=number)
    if not found:
        raise OptionError(f"{path}: is empty; must hold a document in each line")


_LABEL_HINT = ('must be {"label": "...", "sentences": [...]}', "must be LABEL<TAB>text, or a table NAME.csv")


def _lines(path: Path) -> Iterator[Tuple[int, str]]:
    return ((number, line) for number, line in enumerate(iter_lines(path), 1) if line.strip())


def _rows(path: Path, is_csv: bool) -> Iterator[Tuple[int, Dict[str, str]]]:
    """The line number of each row, and its cells by the names of the columns."""
    rows: Iterator[Tuple[int, List[str]]] = ((number, line.split("\t")) for number, line in _lines(path))
    if is_csv:
        rows = csv_rows(path, iter_lines(path), list(islice(iter_lines(path), 1000)))
    names: Optional[List[str]] = None
    for number, row in rows:
        if not any(map(str.strip, row)):
            continue
        if names is None:
            head = [cell.strip().lower() for cell in row]
            # in a file of text this word alone may be a text
            names = head if "text" in head and (is_csv or {"label", "id"} & {*head}) else []
            if names:
                continue
        columns = names or ["label", "text"][-len(row) :]
        if len(row) != len(columns):
            expected = f"as many as the first row, {len(names)}" if names else "two, LABEL<TAB>text, or the text alone"
            raise OptionError(f"{path}, line {number}: has {counted(len(row), 'column')}; must have {expected}")
        yield number, dict(zip(columns, row))


def _from_row(cells: Dict[str, str], reading: Reading, split: Callable[[str], List[str]]) -> Document:
    sentences = _sentences(split_sentences(cells["text"], reading.separator), split)
    return Document(sentences, cells.get("label", "").strip() or None, cells.get("id") or None)


def _from_json(line: str, reading: Reading, split: Callable[[str], List[str]]) -> Document:
    try:
        values = parse_json(line)
    except ValueError as error:
        raise ValueError(f"must be JSON, a document in each line ({error})") from None
    is_text = isinstance(values, dict) and isinstance(values.get("text"), str)
    if not is_text and not (isinstance(values, dict) and isinstance(values.get("sentences"), list)):
        raise ValueError('must be {"label": "...", "sentences": [...]}, or have a "text" in the place of its sentences')
    sentences: List[Any] = split_sentences(values["text"], reading.separator) if is_text else values["sentences"]
    label, name = values.get("label"), values.get("id", values.get("name"))
    if isinstance(label, (list, dict, float, bool)):
        raise ValueError(f"the label {label!r} must be a word or a whole number")
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
        # one object for all occurrences of a word: splits are drawn with all documents in memory
        words = [sys.intern(_SPECIAL.get(word, word)) for word in split(sentence)]
        if words:
            result.append(words)
    return result


def to_line(sentences: Iterable[Iterable[str]]) -> str:
    """The line of a document; fairseq-preprocess adds the last ``</s>``."""
    return f" {END} ".join(" ".join(words) for words in sentences)


def split_documents(
    documents: Iterable[Document], shares: Dict[str, float], rest: str = "train", seed: int = 1
) -> Dict[str, List[Document]]:
    """Assigns documents to splits at random. Each split keeps the order of the documents.

    Args:
        documents: all documents; equal ones go to the same split
        shares: for each split except ``rest``, its share of the documents of every label, rounded down
        rest: split that receives the other documents
        seed: of the random numbers

    Raises:
        OptionError: the shares leave nothing for ``rest``, or a split is empty
    """
    if any(share <= 0 for share in shares.values()) or sum(shares.values()) >= 1:
        given = " ".join(f"{name}={share:g}" for name, share in shares.items())
        raise OptionError(f"--split {given}: must be above 0 and sum to less than 1, to leave documents for {rest}")
    every = list(tqdm(documents, desc="documents", unit=" documents", disable=None, leave=False))
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
            end = start + int(share * len(numbers) + 1e-9)  # 0.29 of 100 are 29
            for number in numbers[start:end]:
                split_of[number] = split
            start = end
    first: Dict[bytes, int] = {}
    for number, document in enumerate(every):
        # equal documents must not be in both training and test data
        digest = hashlib.sha1(to_line(document.sentences).encode("utf-8", "surrogatepass")).digest()
        split_of[number] = split_of[first.setdefault(digest, number)]
    result: Dict[str, List[Document]] = {split: [] for split in (rest, *shares)}
    for split, document in zip(split_of, every):
        result[split].append(document)
    for split, part in result.items():
        if not part:
            raise OptionError(f"{len(first)} different documents are too few: the split {split} is empty")
    return result


def write_documents(documents: Iterable[Document], prefix: PathLike) -> Tuple[int, int, int]:
    """Writes ``PREFIX.input0`` and ``PREFIX.label``, a line for each document.

    Returns the numbers of documents, sentences and words. Raises ``OptionError`` if a file cannot be written.
    """
    counts = [0, 0, 0]
    failures = [f"{prefix}.{side}: cannot be written" for side in ("input0", "label")]
    make_folder("--to", Path(prefix).parent)
    with whole_text(f"{prefix}.input0", failures[0]) as lines, whole_text(f"{prefix}.label", failures[1]) as labels:
        for document in tqdm(documents, desc=str(prefix), unit=" documents", disable=None, leave=False):
            lines.write(to_line(document.sentences) + "\n")
            labels.write((document.label or "") + "\n")
            for place, number in enumerate((1, len(document.sentences), document.words)):
                counts[place] += number
    return counts[0], counts[1], counts[2]


def class_names(label_dictionary: Any) -> List[str]:
    """The labels in the order of a model's classes: the symbols of ``label/dict.txt`` that fairseq did not add."""
    symbols = label_dictionary.symbols[label_dictionary.nspecial :]
    return [symbol for symbol in symbols if symbol != "<mask>" and not symbol.startswith("madeupword")]
