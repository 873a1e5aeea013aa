"""From a line of text to the tokens that a model was trained on."""

from __future__ import annotations

import argparse
from typing import Any, Callable, List, Optional

from fairseq_attn_plugin.errors import OptionError

__all__ = ["Segmenter", "add_text_options", "segmenter_of"]


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """How text was prepared before training; nothing of it is needed for text that is prepared already."""
    group = parser.add_argument_group("how text becomes tokens")
    group.add_argument("--moses", action="store_true", help="tokenise as Moses does (sacremoses)")
    group.add_argument("--lowercase", action="store_true", help="lower-case")
    group.add_argument("--bpe-codes", metavar="FILE", help="merges of subword-nmt, of both languages or the source's")
    group.add_argument("--target-bpe-codes", metavar="FILE", help="those of the target's (default: --bpe-codes)")
    group.add_argument("--sentencepiece", metavar="FILE", help="SentencePiece model, of both languages or the source's")
    group.add_argument("--target-sentencepiece", metavar="FILE", help="that of the target (default: --sentencepiece)")


def segmenter_of(args: argparse.Namespace, language: str, dictionary: Any, target: bool = False) -> Segmenter:
    """The segmenter that the options of :func:`add_text_options` ask for."""
    codes, option = args.bpe_codes, "--bpe-codes"
    pieces, piece_option = args.sentencepiece, "--sentencepiece"
    if target and args.target_bpe_codes:
        codes, option = args.target_bpe_codes, "--target-bpe-codes"
    if target and args.target_sentencepiece:
        pieces, piece_option = args.target_sentencepiece, "--target-sentencepiece"
    if codes and pieces:
        raise OptionError(f"{option} {codes} and {piece_option} {pieces}: choose one of the two")
    merge: Optional[Callable[[str], List[str]]] = None
    if codes:
        merge = _bpe(codes, option, dictionary)
    elif pieces:
        merge = _sentencepiece(pieces, piece_option)
    return Segmenter(language if args.moses else None, args.lowercase, merge)


class Segmenter:
    """Text to tokens: Moses' tokeniser, lower-casing, subwords, each where it is wanted.

    Args:
        moses: language of the tokeniser, or None for text that is tokenised already
        lowercase: whether to lower-case
        subwords: a tokenised line to its pieces, or None for words
    """

    def __init__(
        self,
        moses: Optional[str] = None,
        lowercase: bool = False,
        subwords: Optional[Callable[[str], List[str]]] = None,
    ):
        self.lowercase, self.subwords = lowercase, subwords
        self.tokenize: Optional[Callable[[str], str]] = None
        if moses is not None:
            from sacremoses import MosesTokenizer

            tokenizer = MosesTokenizer(lang=moses)
            self.tokenize = lambda line: str(tokenizer.tokenize(line, return_str=True, escape=False))

    def __call__(self, line: str) -> List[str]:
        line = line.strip()
        if self.tokenize is not None:
            line = self.tokenize(line)
        if self.lowercase:
            line = line.lower()
        return line.split() if self.subwords is None else self.subwords(line)


def _bpe(path: str, option: str, dictionary: Any) -> Callable[[str], List[str]]:
    """Pieces that the model does not know are split further, as with subword-nmt's ``--vocabulary``."""
    from subword_nmt.apply_bpe import BPE

    try:
        with open(path, encoding="utf-8") as stream:
            merges = BPE(stream, vocab=set(dictionary.symbols))
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{option} {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except (SystemExit, ValueError, IndexError):
        raise OptionError(f"{option} {path}: is no file of subword-nmt learn-bpe") from None
    return lambda line: merges.process_line(line).split()


def _sentencepiece(path: str, option: str) -> Callable[[str], List[str]]:
    from sentencepiece import SentencePieceProcessor

    try:
        pieces = SentencePieceProcessor(model_file=path)
    except (OSError, RuntimeError) as error:
        raise OptionError(f"{option} {path}: is no SentencePiece model: {' '.join(str(error).split())}") from None
    return lambda line: list(pieces.encode(line, out_type=str))
