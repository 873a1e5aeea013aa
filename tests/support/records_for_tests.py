"""Files as ``fairseq-attn extract`` writes them, made by hand: no model is needed to test what is done with them."""

from pathlib import Path
from typing import Optional, Sequence, Tuple

import numpy as np

from fairseq_attn_plugin.analysis.records.record import Header, Record
from fairseq_attn_plugin.analysis.records.writer import RecordWriter

PAIRS = (
    ("ein klei@@ nes haus", "a small house"),
    ("der hund schläft", "the dog is slee@@ ping"),
    ("guten tag", "good day"),
)


def diagonal(rows: int, columns: int, peak: float = 0.7) -> np.ndarray:
    """Attention ``[rows + 1, columns + 1]`` with most weight near the diagonal, end to end; rows sum to one."""
    weights = np.full((rows + 1, columns + 1), (1 - peak) / max(columns, 1))
    for row in range(rows):
        weights[row, min(round(row * columns / max(rows, 1)), columns - 1) if columns else 0] = peak
    weights[rows, columns] = peak
    return weights / weights.sum(axis=1, keepdims=True)


def record(number: int, source: str, target: str, weights: Optional[np.ndarray] = None, **others: object) -> Record:
    """Tokens are separated by blanks; ``weights`` are diagonal if they are not given."""
    left, right = source.split(), target.split()
    attention = diagonal(len(right), len(left)) if weights is None else np.asarray(weights, dtype=float)
    values = {"scores": [-0.5 - 0.01 * number] * (len(right) + 1), **others}
    return Record(number, left, right, {"attention": attention}, **values)  # type: ignore[arg-type]


def write_records(
    path: Path,
    name: str = "soft",
    pairs: Sequence[Tuple[str, str]] = PAIRS,
    records: Optional[Sequence[Record]] = None,
    **header: object,
) -> Path:
    """A file with a record for each pair, or with those given."""
    given = [record(number, *pair) for number, pair in enumerate(pairs)] if records is None else list(records)
    values = {
        "architecture": "lstm_soft",
        "checkpoint": "checkpoint_best.pt",
        "source_lang": "de",
        "target_lang": "en",
        "split": "test",
        "target": "reference",
        "subwords": "bpe",
        "sentences": max([len(given), *(one.id + 1 for one in given)]),
        **header,
    }
    writer = RecordWriter(path, Header(name=name, **values))  # type: ignore[arg-type]
    for one in given:
        writer.write(one)
    writer.finish()
    return path


def draw_twelve(path: Path) -> None:
    """A page of twelve documents of three sentences; the third is wrong, and names a word that no other has."""
    from fairseq_attn_plugin.analysis.drawing.document_page import draw_documents
    from fairseq_attn_plugin.analysis.inference.classification import Classified

    words, peak = "the plot is thin but its pictures are a wonder".split(), [0.01] * 9 + [0.91]
    documents = []
    for number in range(1, 13):
        sentences = [words, words[:3] + ["dreadful"] if number == 3 else words[:4], words[:2] + ["x" * 90]]
        weights = [peak, [0.25] * 4, [0.5, 0.3, 0.2]]
        gold, found = "neg" if number == 3 else "pos", {"pos": 0.9, "neg": 0.1}
        documents.append(Classified(str(number), "pos", 0.9, found, gold, sentences, weights, [0.8, 0.1, 0.1]))
    draw_documents(documents, path)
