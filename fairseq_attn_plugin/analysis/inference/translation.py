"""What a translator returns, and the bounds of what it takes."""

from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from fairseq_attn_plugin.analysis.records.record import Record, shown_units
from fairseq_attn_plugin.decoding.export import runtime
from fairseq_attn_plugin.decoding.export.runtime import BEGINNING, MOST_CHARACTERS
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


def translation_of(
    record: Record, score: float, unknown: List[int], escapes: bool, detokenize: Callable[[str], str]
) -> Translation:
    """The translation of a record; ``escapes`` says whether its words have those of Moses."""

    def text_of(tokens: Sequence[str]) -> str:
        # as fairseq prints it: a model that has hardly learnt may write the symbol of the beginning
        return detokenize(" ".join(spell([one for one in tokens if one != BEGINNING], record.subwords)))

    links = positions_of(record.attention.tolist())
    copied = replace_unknown(record.target, record.source, links, {}, record.subwords)
    words = shown_units(record, escaped=escapes)
    return Translation(text_of(record.target), score, record, unknown, *words, text_of(copied))


def check_nbest(nbest: int, beam: int) -> None:
    """Raises ``OptionError`` if ``nbest`` is not from 1 to ``beam``."""
    if not 1 <= nbest <= beam:
        raise OptionError(f"--nbest {nbest}: must be from 1 to {beam}, the width of the beam")


def check_text(text: str) -> None:
    """Raises ``OptionError`` if the text is no string or too long."""
    if not isinstance(text, str):
        raise OptionError(f"{text!r}: must be a sentence; translate_all takes a list of them")
    if len(text) > MOST_CHARACTERS:
        raise OptionError(f"the sentence is too long: {len(text)} characters, at most {MOST_CHARACTERS} are read")


class ExportedTranslator:
    """Translates by onnxruntime, with a folder that ``fairseq-attn export`` wrote; needs neither torch nor fairseq.

    Args:
        folder: the folder
        beam, lenpen: of the search; those of the folder if they are None

    Raises:
        OptionError: the folder is damaged, or its model has no attention
    """

    def __init__(self, folder: str, beam: Optional[int] = None, lenpen: Optional[float] = None):
        try:
            self._translator = runtime.Translator(folder, beam, lenpen)
        except (ValueError, ImportError) as error:
            raise OptionError(str(error)) from None
        except Exception as error:  # those of onnxruntime and sentencepiece have no common class
            reason = " ".join(str(error).split())
            raise OptionError(f"{folder}: cannot be read as an exported model: {reason}") from None
        settings = self._translator.settings
        if settings["attention"] is None:
            raise OptionError(f"{folder}: the model has no attention to show; run its translate.py")
        self._escapes = settings["tokenizer"] is not None and settings["tokenizer"]["escape"]
        self._beam, self._subwords = self._translator.beam, settings["subwords"]

    def translate_all(self, texts: Sequence[str], nbest: int = 1) -> List[Union[List[Translation], OptionError]]:
        """As :meth:`.translator.Translator.translate_all`.

        Raises:
            OptionError: ``nbest`` is less than 1 or greater than the width of the beam; probabilities are not finite:
                the model is at fault, not the sentence
        """
        check_nbest(nbest, self._beam)
        refused: Dict[int, OptionError] = {}
        tokens: List[List[str]] = []
        for place, text in enumerate(texts):
            try:
                check_text(text)
                tokens.append(self._translator.tokens(text))
            except ValueError as error:
                refused[place] = OptionError(str(error))
                tokens.append([])
        try:
            found = self._translator.search_tokens(tokens, [f"the sentence {text[:60]!r}" for text in texts], nbest)
        except FloatingPointError as error:
            raise OptionError(str(error)) from None
        return [refused.get(place, [*map(self._translation, some)]) for place, some in enumerate(found)]

    def _translation(self, found: runtime.Hypothesis) -> Translation:
        numbers = self._translator.encode(found.source)[:-1]
        unknown = [place for place, number in enumerate(numbers) if number == runtime.UNK]
        record = Record(0, found.source, found.target, {"attention": found.attention}, found.scores, self._subwords)
        return translation_of(record, found.score, unknown, self._escapes, self._translator.detokenize)
