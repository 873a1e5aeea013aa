"""Writes the sentences of another program as records.

Programs mark the subwords of a word in ways of their own. Records have the marks ``bpe`` or ``sentencepiece``:

    bpe            haus@@ tür           subword-nmt
    sentencepiece  ▁haus tür            SentencePiece, and the spacers of OpenNMT's tokeniser
    wordpiece      haus ##tür           BERT
    byte-level     Ġhaus tür            GPT-2, BART: each character stands for a byte
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import AbstractSet, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.importing.formats import FORMATS, Files, Sentence, beside
from fairseq_attn_plugin.analysis.records.record import Header, Record
from fairseq_attn_plugin.analysis.records.writer import RecordWriter
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import BPE_MARK, PIECE_MARK

ENDS = ("</s>", "<eos>", "<EOS>", "<|endoftext|>", "[SEP]")  # what programs call the end of a sentence
# kind -> what it becomes in records
MARKS = {
    "bpe": "bpe",
    "sentencepiece": "sentencepiece",
    "wordpiece": "bpe",
    "byte-level": "sentencepiece",
    "none": "none",
}
_SPACE, _PIECE = "\u0120", "##"


def imported_records(
    form: str,
    files: Files,
    kind: str = "none",
    contents: Optional[Set[str]] = None,
) -> Iterator[Record]:
    """Yields the records of another program's output, in its order.

    Args:
        form: one of ``FORMATS``
        files: the output, and the texts that it needs
        kind: of subwords, one of ``MARKS``
        contents: gets ``links`` or ``weights`` for each sentence, as it has the one or the other

    Raises:
        OptionError: a file cannot be read or has another form, or a matrix does not match its sentence; the message
            names file and line
    """
    sentences: Iterable[Sentence] = FORMATS[form].read(files)
    if files.source_text is not None:
        pairs = beside(sentences, files.path, "--source-text", files.source_text)
        sentences = (one._replace(source=source) for one, source in pairs)
    for one in sentences:
        try:
            record = record_of(one, MARKS[kind])
            if contents is not None:
                contents.add("links" if one.weights is None else "weights")
        except OptionError as error:
            raise OptionError("; ".join(filter(None, [str(error), FORMATS[form].hint]))) from None
        yield replace(record, source=marked(record.source, kind), target=marked(record.target, kind))


def record_of(sentence: Sentence, subwords: str) -> Record:
    """The record of a sentence.

    A matrix may lack the row or the column of a sentence end, which is then zero. Links (i, j) become weights 1/k for
    the k source tokens of a target token j, and 1 for the end of the source if it has none.

    Args:
        sentence: as it was read, with its source
        subwords: kind of both sides

    Raises:
        OptionError: matrix, links or scores do not match the tokens
    """
    if sentence.source is None:
        raise OptionError(f"{sentence.where}: has no source; name its text, in the same tokens, by --source-text")
    left, right = without_end(sentence.source), without_end(sentence.target)
    if sentence.weights is not None:
        matrix = _fitted(sentence.weights, len(right), len(left), sentence.where)
    else:
        matrix = _of_links(sentence.links or set(), len(right), len(left), sentence.where)
    scores = list(sentence.scores)
    if len(scores) not in (0, len(right) + 1):
        raise OptionError(
            f"{sentence.where}: has {len(scores)} scores for {len(right)} target tokens and the end; must have "
            f"{len(right) + 1}"
        )
    weights = {"attention": matrix}
    return Record(sentence.number, left, right, weights, scores, subwords, sentence.reference)


def without_end(tokens: Sequence[str]) -> List[str]:
    """The tokens without the symbol of the sentence's end, if it is the last one."""
    return list(tokens[:-1] if tokens and tokens[-1] in ENDS else tokens)


def _fitted(weights: np.ndarray, rows: int, columns: int, where: str) -> np.ndarray:
    """The matrix with both ends, ``[rows + 1, columns + 1]``."""
    found = np.asarray(weights, dtype=np.float32)
    fits = _fits(found.shape, rows, columns)
    if not fits:
        turned = _fits(found.shape[::-1], rows, columns)
        raise OptionError(
            f"{where}: attention is {' x '.join(map(str, found.shape))}, the sentence has {rows} target and {columns} "
            "source tokens" + ("; rows must be target tokens" if turned else " (each side may have one more, its end)")
        )
    if not ((found >= 0) & (found < np.inf)).all():
        raise OptionError(f"{where}: attention must not be negative or infinite")
    return np.pad(found, ((0, rows + 1 - found.shape[0]), (0, columns + 1 - found.shape[1])))


def _fits(shape: Tuple[int, ...], rows: int, columns: int) -> bool:
    return len(shape) == 2 and shape[0] - rows in (0, 1) and shape[1] - columns in (0, 1)


def _of_links(links: AbstractSet[Link], rows: int, columns: int, where: str) -> np.ndarray:
    matrix = np.zeros((rows + 1, columns + 1), dtype=np.float32)
    for source, target in sorted(links):
        if not (0 <= source <= columns and 0 <= target <= rows):
            raise OptionError(
                f"{where}: link {source}-{target}: the sentence has {columns} source and {rows} target tokens, counted "
                "from 0 (each side may have one more, its end)"
            )
        matrix[target, source] = 1
    matrix[matrix.sum(axis=1) == 0, columns] = 1
    return matrix / matrix.sum(axis=1, keepdims=True)


def import_file(args: argparse.Namespace) -> Header:
    """Writes the records that the options of ``fairseq-attn import`` name, and returns their header.

    All of them are checked before the first is written. Raises ``OptionError`` as :func:`imported_records` does, if
    there is no sentence, or ``args.out`` cannot be written.
    """
    form, files = args.format, Files(args.file, args.source_text, args.target_text)
    counts: Dict[str, int] = {}
    contents: Set[str] = set()
    sentences = 0
    checked = imported_records(form, files, contents=contents)
    for record in tqdm(checked, "check", unit="", disable=None):
        count_marks((*record.source, *record.target), counts)
        sentences += 1
    if not sentences:
        raise OptionError(f"{files.path}: has no sentence")
    kind = args.subwords or judged(counts)
    header = Header(
        name=args.name or Path(files.path).stem,
        architecture=form,
        checkpoint="",
        source_lang=args.source_lang,
        target_lang=args.target_lang,
        split=Path(files.source_text or files.path).name,
        target="reference" if args.forced else "imported",
        subwords=MARKS[kind],
        sentences=sentences,
        options={"links": True} if contents == {"links"} else {},
    )
    writer = RecordWriter(args.out, header, resume=False)
    try:
        for record in tqdm(imported_records(form, files, kind), "write", sentences, disable=None):
            writer.write(record)
    finally:
        writer.close()
    writer.finish()
    return header


def count_marks(tokens: Iterable[str], counts: Dict[str, int]) -> None:
    """Adds the number of tokens with each kind of mark to ``counts``."""
    for token in tokens:
        if token.endswith(BPE_MARK) and token != BPE_MARK:
            counts["bpe"] = counts.get("bpe", 0) + 1
        elif token.startswith(PIECE_MARK):
            counts["sentencepiece"] = counts.get("sentencepiece", 0) + 1
        elif token.startswith(_PIECE) and token != _PIECE:
            counts["wordpiece"] = counts.get("wordpiece", 0) + 1
        elif token.startswith(_SPACE):
            counts["byte-level"] = counts.get("byte-level", 0) + 1


def judged(counts: Dict[str, int]) -> str:
    """The most frequent kind of mark; ``none`` without marks."""
    return max(counts, key=lambda kind: counts[kind]) if counts else "none"


def marked(tokens: Sequence[str], kind: str) -> List[str]:
    """The tokens, as many as before, with the marks of ``MARKS[kind]``."""
    if kind == "byte-level":
        return [_of_bytes(token) for token in tokens]
    if kind != "wordpiece":
        return list(tokens)
    result: List[str] = []
    for token in tokens:
        joined = token.startswith(_PIECE) and token != _PIECE
        if result and joined and not result[-1].endswith(BPE_MARK):
            result[-1] += BPE_MARK
        result.append(token[len(_PIECE) :] if joined else token)
    return result


def _byte_of() -> Dict[str, int]:
    """The bytes that characters stand for: printable ones for themselves, the others from U+0100 on, in their order."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{chr(byte): byte for byte in shown}, **{chr(256 + place): byte for place, byte in enumerate(hidden)}}


_BYTES = _byte_of()


def _of_bytes(token: str) -> str:
    if not all(letter in _BYTES for letter in token):
        return token  # a special symbol
    text = bytes(_BYTES[letter] for letter in token).decode("utf-8", "replace")
    return PIECE_MARK + text[1:] if text.startswith(" ") else text
