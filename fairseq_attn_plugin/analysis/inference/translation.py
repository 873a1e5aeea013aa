"""What a translator returns, and an exported model (``fairseq-attn export``) as a translator, which needs no torch."""

from __future__ import annotations

import threading
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.analysis.records.shown import shown_units
from fairseq_attn_plugin.decoding import exported_folder, runtime
from fairseq_attn_plugin.decoding.runtime import MOST_CHARACTERS, one_line
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import read_settings
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


def is_exported(folder: str) -> bool:
    """Whether a folder is one that ``fairseq-attn export`` wrote."""
    return read_settings(folder).get("format") == exported_folder.FORMAT


class ExportedTranslator:
    """A callable from a sentence to its translations, run by onnxruntime; as :class:`.translator.Translator`.

    Args:
        folder: that ``fairseq-attn export`` wrote
        beam, lenpen: of the search (default: those of the folder)

    Raises:
        OptionError: the folder is damaged, or its model has no attention
    """

    def __init__(self, folder: str, beam: Optional[int] = None, lenpen: Optional[float] = None):
        try:
            self._translator = runtime.Translator(folder, beam, lenpen)
        except (ValueError, ImportError) as error:
            raise OptionError(str(error)) from None
        except Exception as error:  # onnxruntime's exceptions have no common class
            reason = " ".join(str(error).split())
            raise OptionError(f"{folder}: cannot be read as an exported model: {reason}") from None
        settings = self._translator.settings
        if settings["attention"] is None:
            raise OptionError(f"{folder}: the model has no attention to show; export one with attention")
        self.path, self.beam = folder, self._translator.beam
        self.languages: Tuple[str, str] = tuple(settings["languages"])
        self.subwords, self.lowercase = settings["subwords"], settings["lowercase"]
        self.segments = settings["bpe"] is not None or self.subwords == "none"
        self._escapes = settings["tokenizer"] is not None and settings["tokenizer"]["escape"]
        self._lock = threading.Lock()

    @property
    def separates(self) -> bool:
        """As :meth:`.translator.Translator.separates`."""
        joined = self._translator.settings["tokenizer"] is not None or self.subwords == "sentencepiece"
        return not joined and any(mark in self._translator.numbers for mark in ".,?!")

    def examples(self, count: int = 3) -> List[str]:
        """None: an exported folder has no corpus."""
        return []

    def __call__(self, text: str, nbest: int = 1, prefix: str = "") -> List[Translation]:
        return self.translate(text, nbest, prefix)

    def translate(self, text: str, nbest: int = 1, prefix: str = "") -> List[Translation]:
        """As :meth:`.translator.Translator.translate`, with the same errors, but without prefix."""
        if prefix.strip():
            raise OptionError("an exported model cannot continue a prefix; serve its checkpoint")
        check_request(text, nbest, self.beam)
        line = one_line(text)
        with self._lock:
            try:
                (found,) = self._translator.search([line], nbest)
            except ValueError as error:
                raise OptionError(str(error).replace("line 1: ", "", 1)) from None
            except FloatingPointError as error:
                raise _Damaged(str(error).replace("line 1", f"the sentence {line[:60]!r}", 1)) from None
        if not found:
            raise OptionError("there is no word to translate")
        return [self._translation(one) for one in found]

    def translate_all(
        self, texts: Sequence[str], nbest: int = 1, batch_size: int = 1
    ) -> List[Union[List[Translation], OptionError]]:
        """As :meth:`.translator.Translator.translate_all`, but sentence by sentence."""
        result: List[Union[List[Translation], OptionError]] = []
        for text in texts:
            try:
                result.append(self.translate(text, nbest))
            except _Damaged:
                raise
            except OptionError as error:
                result.append(error)
        return result

    def _translation(self, found: runtime.Hypothesis) -> Translation:
        numbers = self._translator.encode(found.source)[:-1]
        unknown = [place for place, number in enumerate(numbers) if number == runtime.UNK]
        weights = {"attention": found.attention.astype(np.float64)}
        record = Record(0, found.source, found.target, weights, found.scores, self.subwords)
        return translation_of(record, found.score, unknown, self._escapes, self._translator.detokenize)


class _Damaged(OptionError):
    """The model is at fault, not the sentence."""
