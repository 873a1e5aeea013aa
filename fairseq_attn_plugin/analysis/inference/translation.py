"""What a translator returns, and the bounds of what it takes."""

from __future__ import annotations

from typing import Callable, List, NamedTuple

from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.analysis.records.shown import shown_units
from fairseq_attn_plugin.decoding.runtime import MOST_CHARACTERS
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.subwords import spell
from fairseq_attn_plugin.text.unknown_words import positions_of, replace_unknown


class Translation(NamedTuple):
    """One hypothesis of the beam."""

    text: str  # words, detokenised if there is a tokeniser
    score: float  # of the beam search: mean natural log probability, with penalties
    record: Record  # tokens, attention, log probabilities
    unknown: List[int]  # positions of the source tokens that the vocabulary lacks
    source_words: List[str]  # of the record, without the escapes of Moses: < instead of &lt;
    target_words: List[str]  # a source word stands beside an unknown one
    copied: str = ""  # the text with a source word for each unknown word, by attention
    given: int = 0  # target tokens that the prefix gave


def translation_of(
    record: Record, score: float, unknown: List[int], escapes: bool, detokenize: Callable[[str], str]
) -> Translation:
    """The translation of a record; ``escapes`` says whether its words have those of Moses."""
    positions = positions_of(record.attention.tolist())
    copied = spell(replace_unknown(record.target, record.source, positions, {}), record.subwords)
    text = " ".join(spell(record.target, record.subwords))
    words = shown_units(record, escaped=escapes)
    return Translation(detokenize(text), score, record, unknown, *words, detokenize(" ".join(copied)))


def check_request(text: str, nbest: int, beam: int) -> None:
    """Raises ``OptionError`` if ``nbest`` is less than 1 or greater than the beam, or if the text is too long."""
    if not 1 <= nbest <= beam:
        raise OptionError(f"--nbest {nbest}: must be from 1 to {beam}, the width of the beam")
    check_length("the sentence", text)


def check_length(what: str, text: str) -> None:
    """Raises ``OptionError`` if the text has more than ``MOST_CHARACTERS`` characters."""
    if len(text) > MOST_CHARACTERS:
        raise OptionError(f"{what} is too long: {len(text)} characters, at most {MOST_CHARACTERS} are read")
