"""Tokenisation: Moses' rules and their inverse, or words between white space without their punctuation."""

from __future__ import annotations

import unicodedata
from concurrent.futures import ProcessPoolExecutor
from typing import Callable, Iterable, List

from tqdm import tqdm

__all__ = ["Tokenizer", "bare_words", "detokenize", "tokenize"]

CHUNK = 2000  # sentences per task of a worker; large enough to hide the cost of the transfer


class Tokenizer:
    """Moses tokenisation of one language, with Moses' escapes (``&apos;``) or without.

    Args:
        language: two-letter code
        normalize: whether punctuation is normalised first
        escape: whether special characters are escaped
    """

    def __init__(self, language: str, normalize: bool = True, escape: bool = True):
        from sacremoses import MosesPunctNormalizer, MosesTokenizer

        self.normalizer = MosesPunctNormalizer(lang=language) if normalize else None
        self.tokenizer, self.escape = MosesTokenizer(lang=language), escape

    def __call__(self, lines: Iterable[str]) -> List[str]:
        if self.normalizer is not None:
            lines = map(self.normalizer.normalize, lines)
        return [self.tokenizer.tokenize(line, return_str=True, escape=self.escape) for line in lines]


def tokenize(lines: List[str], language: str, jobs: int, normalize: bool = True, escape: bool = True) -> List[str]:
    """Tokenised ``lines`` in their order, by ``jobs`` processes."""
    chunks = [lines[start : start + CHUNK] for start in range(0, len(lines), CHUNK)]
    work: Callable[[Iterable[str]], List[str]] = Tokenizer(language, normalize, escape)
    done: List[str] = []
    with tqdm(total=len(lines), desc="tokenise " + language, unit=" sentences", disable=None) as bar:
        if jobs > 1 and len(chunks) > 1:
            with ProcessPoolExecutor(jobs) as pool:
                for part in pool.map(work, chunks):
                    done += part
                    bar.update(len(part))
        else:
            for chunk in chunks:
                done += work(chunk)
                bar.update(len(chunk))
    return done


def detokenize(lines: List[str], language: str) -> List[str]:
    """Undoes Moses tokenisation (approximately) and its escapes."""
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang=language)
    return [detokenizer.detokenize(line.split(), unescape=True) for line in lines]


def bare_words(line: str) -> str:
    """The words between white space without the punctuation at their ends. Their number does not change.

    A word that consists of punctuation stays as it is.
    """
    return " ".join(map(_bare, line.replace("\u2019", "'").split()))


def _bare(word: str) -> str:
    inner = [number for number, c in enumerate(word) if unicodedata.category(c)[0] != "P"]
    return word[inner[0] : inner[-1] + 1] if inner else word
