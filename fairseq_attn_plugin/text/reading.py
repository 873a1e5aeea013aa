"""Running text: normalised, split into sentences and words by the same rules for training and prediction, shown."""

import argparse
import functools
import re
import unicodedata
from typing import Any, Callable, List, NamedTuple, Optional, Sequence

from fairseq_attn_plugin.errors import OptionError

NORMALIZERS = ("moses",)
# languages that write no blanks between words, and sacrebleu's tokenisers of them
SCORED_BY = {
    **dict.fromkeys(("zh", "zho", "chi", "cmn", "yue"), "zh"),
    **dict.fromkeys(("ja", "th", "km", "lo", "my", "jpn", "tha", "khm", "lao", "mya", "bur"), "char"),
}
SEVERAL = (
    "several sentences; a model that has learned single sentences may leave out what follows the first one: give each "
    "sentence a line"
)

# the end of a sentence and its closing quotes and brackets, attached or as separate tokens
_SENTENCE_END = re.compile(r"""(?:[.!?。！？؟۔।॥]\s?)+(?:["'”’»)\]}]+(?=\s|$))*\s*|\n+""")
# a word, the mark that ends it, and the first letter of the next word, which a mark may end in turn; tokens may stand
# apart
_NEXT_SENTENCE = re.compile(r"\b(\w+)[^\w\s]*\s*([.!?…])[^\w\s.!?…]*\s[^\w.!?…]*(?=(\w))")
SHORT = 3  # letters of a word before a full stop that may be an abbreviation, as in Dr. and Nr.
_ESCAPES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "#124": "|", "#91": "[", "#93": "]"}
_ESCAPED = re.compile(f"&({'|'.join(_ESCAPES)});")


class Reading(NamedTuple):
    """The rules that split text into sentences and words."""

    separator: Optional[str] = None  # between sentences (default: punctuation)
    lowercase: bool = False
    tokenize: bool = False  # by Moses' rules for English; otherwise split at white space


AS_IT_IS = Reading()


def add_reading_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of :class:`Reading`, which must be the same for training and prediction."""
    add = parser.add_argument
    add("--separator", metavar="TEXT", help="separator between the sentences of a text (default: punctuation)")
    add("--lowercase", action="store_true", help="lower-case the words")
    add("--tokenize", action="store_true", help="tokenise text by Moses' rules (default: split at spaces)")


def reading_from(args: argparse.Namespace) -> Reading:
    """The rules that the options give; raises ``OptionError`` for a separator of white space."""
    if args.separator is not None and not args.separator.strip():
        raise OptionError(f"--separator {args.separator!r}: must be more than white space")
    return Reading(args.separator, args.lowercase, args.tokenize)


def split_sentences(text: str, separator: Optional[str] = None) -> List[str]:
    """Splits a text at a separator, or after ``.``, ``!``, ``?`` and at line ends.

    Without a separator this is a heuristic: a full stop ends a sentence if white space or the end of the text follows
    it. It therefore splits after an abbreviation, but not inside a word or a number.
    """
    if separator is not None:
        return [part.strip() for part in text.split(separator) if part.strip()]
    parts, start = [], 0
    for match in _SENTENCE_END.finditer(text):
        # 3.5, e.g, www.x.org: a letter or digit follows directly
        if match.end() < len(text) and not match.group()[-1].isspace() and match.group()[-1] in ".!?":
            continue
        parts.append(text[start : match.end()])
        start = match.end()
    parts.append(text[start:])
    return [" ".join(part.split()) for part in parts if part.strip()]


def is_lowercase(texts: Sequence[str]) -> bool:
    """Whether there are small letters and no capital ones. Scripts such as Arabic's have neither."""
    return all(text == text.lower() for text in texts) and any(text != text.upper() for text in texts)


@functools.lru_cache(maxsize=None)
def moses_tokenizer(language: str) -> Any:
    """The ``tokenize`` of sacremoses. Its own questions about letters at full stops make a set of all letters each
    time, which takes most of the time of lines with several sentences."""
    from sacremoses import MosesTokenizer

    tokenizer = MosesTokenizer(lang=language)
    letters = frozenset(tokenizer.IsAlpha)
    tokenizer.islower = frozenset(tokenizer.IsLower).issuperset
    tokenizer.isanyalpha = lambda text: not letters.isdisjoint(text)
    return tokenizer.tokenize


def word_splitter(reading: Reading) -> Callable[[str], List[str]]:
    """A function that splits a sentence into words."""
    split: Callable[[str], List[str]] = str.split
    if reading.tokenize:
        split = functools.partial(moses_tokenizer("en"), escape=False)
    return lambda text: split(text.lower() if reading.lowercase else text)


def scored_by(language: str) -> Optional[str]:
    """The tokeniser of sacrebleu for a language that writes no blanks between words, as in zh_Hant; None for others."""
    found = re.fullmatch("([a-z]{2,3}|[A-Z]{2,3})(_([A-Z][a-z]{3}|[A-Za-z]{2}))?", language)
    return SCORED_BY.get(found[1].lower()) if found else None


def unspaced(subwords: str, *languages: str) -> bool:
    """Whether SentencePiece split a language that writes no blanks between words: only subwords are told apart."""
    return subwords == "sentencepiece" and any(map(scored_by, languages))


def has_several_sentences(line: str) -> bool:
    """Whether a sentence seems to begin after the end of another one: a letter that is not small after a mark, or any
    text after a mark of Chinese, Japanese, Arabic, Urdu or Hindi."""
    if re.search(r"[。！？][^\w。！？]*\w|[؟۔।॥]\s+\w", line):
        return True
    ends = (match.groups() for match in _NEXT_SENTENCE.finditer(line))
    return any(
        first.isalpha() and not first.islower() and (mark != "." or len(word) > SHORT) for word, mark, first in ends
    )


@functools.lru_cache(maxsize=None)
def build_normalizer(name: Optional[str], language: str) -> Callable[[str], str]:
    """A function from a line to its normalised form.

    Args:
        name: ``moses``: Unicode's composed form, and Moses' rules for punctuation; None: nothing
        language: of the text, for Moses' rules

    Raises:
        OptionError: the name is another
    """
    if name is None:
        return str
    if name != "moses":
        raise OptionError(f"--normalizer {name}: must be one of {', '.join(NORMALIZERS)}")
    from sacremoses import MosesPunctNormalizer

    punctuation = MosesPunctNormalizer(lang=language)
    return lambda line: str(punctuation.normalize(unicodedata.normalize("NFC", line)))


def as_typed(text: str) -> str:
    """A text without the escapes of Moses' tokeniser, for a reader: ``'`` for ``&apos;``, ``<`` for ``&lt;``."""
    return _ESCAPED.sub(lambda found: _ESCAPES[found[1]], text) if "&" in text else text
