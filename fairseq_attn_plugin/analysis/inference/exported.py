"""An exported model (``fairseq-attn export``) with the interface of :class:`.translator.Translator`."""

from __future__ import annotations

import threading
from typing import Callable, List, Optional, Sequence, Tuple, Union

import numpy as np

from fairseq_attn_plugin.analysis.inference.translation import (
    Translation,
    check_request,
    one_line,
    without_unknown,
)
from fairseq_attn_plugin.analysis.records.record import Record
from fairseq_attn_plugin.analysis.records.shown import shown_units
from fairseq_attn_plugin.decoding import exported_folder, runtime
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import read_settings

__all__ = ["ExportedTranslator", "is_exported"]


def is_exported(folder: str) -> bool:
    """Whether a folder is one that ``fairseq-attn export`` wrote."""
    return read_settings(folder).get("format") == exported_folder.FORMAT


class ExportedTranslator:
    """A callable from a sentence to its translations, run by onnxruntime.

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
        return [_or_error(self.translate, text, nbest) for text in texts]

    def _translation(self, found: runtime.Hypothesis) -> Translation:
        numbers = self._translator.encode(found.source)[:-1]
        unknown = [place for place, number in enumerate(numbers) if number == runtime.UNK]
        weights = {"attention": found.attention.astype(np.float64)}
        record = Record(0, found.source, found.target, weights, found.scores, self.subwords)
        words = shown_units(record, escaped=self._escapes)
        copied = self._translator.detokenize(without_unknown(record))
        return Translation(found.text, found.score, record, unknown, *words, copied)


class _Damaged(OptionError):
    """The model is at fault, not the sentence."""


def _or_error(
    translate: Callable[[str, int], List[Translation]], text: str, nbest: int
) -> Union[List[Translation], OptionError]:
    try:
        return translate(text, nbest)
    except _Damaged:
        raise
    except OptionError as error:
        return error
