"""Converts a line of text into the tokens of a model, as fairseq-interactive does, and back."""

import argparse
from argparse import Namespace
from pathlib import Path
from typing import Any, Dict, List, Optional

from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.text.reading import NORMALIZERS, build_normalizer, is_lowercase
from fairseq_attn_plugin.text.subwords import vocabulary_subwords

TOKENIZERS = ("moses", "nltk", "space")  # of fairseq
CASES = ("auto", "lower", "keep")


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that prepare text for a model."""
    text = parser.add_argument_group("preparation of text; leave out what was already applied to it")
    text.add_argument("--normalizer", choices=NORMALIZERS, help="of Unicode and punctuation (default: none)")
    text.add_argument("--tokenizer", choices=TOKENIZERS, help="tokeniser (default: split at blanks)")
    text.add_argument("--moses-no-dash-splits", action="store_true", help="moses: do not split words at dashes")
    text.add_argument("--moses-no-escape", action="store_true", help="moses: do not escape quotes and &")
    text.add_argument("--bpe-codes", metavar="FILE", help="codes of subword-nmt")
    text.add_argument("--sentencepiece-model", metavar="FILE", help="model of SentencePiece")
    text.add_argument(
        "--case",
        choices=CASES,
        default="auto",
        help="auto (default): lower-case if the vocabulary has small letters only",
    )


def text_options(args: Namespace) -> Dict[str, Any]:
    """The arguments of :class:`Segmenter` that the options of :func:`add_text_options` give."""
    return {
        "bpe_codes": args.bpe_codes,
        "sentencepiece_model": args.sentencepiece_model,
        "tokenizer": args.tokenizer,
        "moses_options": {"no_dash_splits": args.moses_no_dash_splits, "no_escape": args.moses_no_escape},
        "case": args.case,
        "normalizer": args.normalizer,
    }


class Segmenter:
    """Lower-casing, tokenisation and subword splitting of one language.

    Args:
        dictionary: of the model; BPE subwords that it lacks are split further, as with subword-nmt's ``--vocabulary``
        language: of the text, for the tokeniser
        detokenize: language that :meth:`decode` writes (default: the same)
        bpe_codes: codes of subword-nmt
        sentencepiece_model: model of SentencePiece, instead of ``bpe_codes``
        tokenizer: one of ``TOKENIZERS``, applied before the subword splitting
        moses_options: ``no_dash_splits`` and ``no_escape``, as in fairseq-interactive
        case: ``lower``; ``keep``; ``auto`` lower-cases if the dictionary has small letters only
        normalizer: of punctuation and Unicode, before the tokeniser; one of ``NORMALIZERS``

    Raises:
        OptionError: an option is wrong, or a file is missing or has the wrong format
    """

    def __init__(
        self,
        dictionary: Any,
        language: str,
        detokenize: Optional[str] = None,
        bpe_codes: Optional[str] = None,
        sentencepiece_model: Optional[str] = None,
        tokenizer: Optional[str] = None,
        moses_options: Optional[Dict[str, bool]] = None,
        case: str = "auto",
        normalizer: Optional[str] = None,
    ):
        if bpe_codes and sentencepiece_model:
            raise OptionError("--bpe-codes, --sentencepiece-model: give one of them, not both")
        if tokenizer not in (None, *TOKENIZERS):
            raise OptionError(f"--tokenizer {tokenizer}: must be one of {', '.join(TOKENIZERS)}")
        if case not in CASES:
            raise OptionError(f"--case {case}: must be one of {', '.join(CASES)}")
        from fairseq.data import encoders

        values = {f"moses_{option}": value for option, value in (moses_options or {}).items()}
        languages = {"source_lang": language, "target_lang": detokenize or language}
        self._tokenizer = encoders.build_tokenizer(Namespace(tokenizer=tokenizer, **languages, **values))
        self._normalize = build_normalizer(normalizer, language)
        self._bpe: Any = None
        if bpe_codes:
            self._bpe = _build("subword_nmt", "--bpe-codes", bpe_codes, "subword-nmt")
            self._bpe.bpe.vocab = set(dictionary.symbols)
        elif sentencepiece_model:
            self._bpe = _build("sentencepiece", "--sentencepiece-model", sentencepiece_model, "SentencePiece")
        words = [one for one in dictionary.symbols[dictionary.nspecial :] if not one.startswith("madeupword")]
        self.lowercase = case == "lower" or (case == "auto" and is_lowercase(words))
        # whether typed words become tokens of the model
        self.segments = self._bpe is not None or vocabulary_subwords(dictionary) == "none"

    def __call__(self, line: str) -> List[str]:
        """The tokens of a line."""
        line = self._normalize(line.lower() if self.lowercase else line)
        for one in filter(None, (self._tokenizer, self._bpe)):
            line = one.encode(line)
        return line.split()

    def decode(self, words: str) -> str:
        """The text of words that blanks separate, detokenised if there is a tokeniser."""
        return words if self._tokenizer is None else self._tokenizer.decode(words)


def _build(name: str, option: str, file: str, program: str) -> Any:
    from fairseq.data import encoders

    if not Path(file).is_file():
        raise OptionError(f"{option} {file}: there is no such file")
    try:
        return encoders.build_bpe(Namespace(bpe=name, bpe_codes=file, sentencepiece_model=file))
    except (OSError, RuntimeError, ValueError, SystemExit) as error:  # subword-nmt calls sys.exit
        reason = " ".join(str(error).split())
        raise OptionError(f"{option} {file}: must be a file of {program}: {reason}") from None
