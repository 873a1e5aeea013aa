"""The words of a record for a reader: as typed, with the source word beside an unknown word."""

from __future__ import annotations

from typing import List, Tuple

from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.text.reading import as_typed
from fairseq_attn_plugin.text.unknown_words import UNKNOWN


def shown_units(record: Record, level: str = "words", escaped: bool = True) -> Tuple[List[str], List[str]]:
    """Source and target units of a record; an unknown word of the target is ``<unk> (Haus)``.

    ``Haus`` is the source unit with the greatest weight. It is left out if the source does not have it either.

    Args:
        record: the sentence
        level: one of ``LEVELS``
        escaped: undo the escapes of Moses' tokeniser
    """
    source, target = record.units(level)
    if escaped:
        source, target = list(map(as_typed, source)), list(map(as_typed, target))
    if source and any(UNKNOWN in word for word in target):
        weights = record.unit_attention(
            level, "attention" if "attention" in record.weights else next(iter(record.weights))
        )
        nearest = [source[row.argmax()] for row in weights]
        target = [
            f"{word} ({near})" if UNKNOWN in word and UNKNOWN not in near else word
            for word, near in zip(target, nearest)
        ]
    return source, target
