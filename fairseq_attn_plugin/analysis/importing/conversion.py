"""Writes the sentences of another program as records."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import AbstractSet, Iterable, Iterator, List, Optional, Sequence, Set, Tuple

import numpy as np
from tqdm import tqdm

from fairseq_attn_plugin.analysis.alignment.links import Link
from fairseq_attn_plugin.analysis.importing.formats import FORMATS, Files, Sentence, beside
from fairseq_attn_plugin.analysis.records.record import Header, Record
from fairseq_attn_plugin.analysis.records.writer import RecordWriter
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import subwords_of

ENDS = ("</s>", "<eos>", "<EOS>", "<|endoftext|>", "[SEP]")  # what programs call the end of a sentence


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
        kind: of subwords, one of ``SUBWORDS``
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
            record = record_of(one, kind)
        except OptionError as error:
            raise OptionError("; ".join(filter(None, [str(error), FORMATS[form].hint]))) from None
        if contents is not None:
            contents.add("links" if one.weights is None else "weights")
        yield record


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
    contents: Set[str] = set()
    sentences, kind = 0, "none"
    checked = imported_records(form, files, contents=contents)
    for record in tqdm(checked, "check", unit="", disable=None):
        kind = subwords_of([*record.source, *record.target])[0] if kind == "none" else kind
        sentences += 1
    if not sentences:
        raise OptionError(f"{files.path}: has no sentence")
    kind = args.subwords or kind
    header = Header(
        name=args.name or Path(files.path).stem,
        architecture=form,
        checkpoint="",
        source_lang=args.source_lang,
        target_lang=args.target_lang,
        split=Path(files.source_text or files.path).name,
        target="reference" if args.forced else "imported",
        subwords=kind,
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
