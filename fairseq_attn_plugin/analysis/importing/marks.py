"""How programs mark the subwords of a word, and the same subwords in the marks of records (``bpe``, ``sentencepiece``).

bpe            haus@@ tür           subword-nmt
sentencepiece  ▁haus tür            SentencePiece, and the spacers of OpenNMT's tokeniser
wordpiece      haus ##tür           BERT
byte-level     Ġhaus tür            GPT-2, BART: each character stands for a byte
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Sequence

from fairseq_attn_plugin.text.subwords import BPE_MARK, PIECE_MARK

# kind -> what it becomes in records
MARKS = {
    "bpe": "bpe",
    "sentencepiece": "sentencepiece",
    "wordpiece": "bpe",
    "byte-level": "sentencepiece",
    "none": "none",
}
_SPACE, _PIECE = "\u0120", "##"


def count_marks(tokens: Iterable[str], counts: Dict[str, int]) -> None:
    """Adds the number of tokens with each kind of mark to ``counts``."""
    for token in tokens:
        if token.endswith(BPE_MARK) and token != BPE_MARK:
            counts["bpe"] = counts.get("bpe", 0) + 1
        elif token.startswith(PIECE_MARK):
            counts["sentencepiece"] = counts.get("sentencepiece", 0) + 1
        elif token.startswith(_PIECE) and token != _PIECE:
            counts["wordpiece"] = counts.get("wordpiece", 0) + 1
        elif token.startswith(_SPACE):
            counts["byte-level"] = counts.get("byte-level", 0) + 1


def judged(counts: Dict[str, int]) -> str:
    """The most frequent kind of mark; ``none`` without marks."""
    return max(counts, key=lambda kind: counts[kind]) if counts else "none"


def marked(tokens: Sequence[str], kind: str) -> List[str]:
    """The tokens, as many as before, with the marks of ``MARKS[kind]``."""
    if kind == "byte-level":
        return [_of_bytes(token) for token in tokens]
    if kind != "wordpiece":
        return list(tokens)
    result: List[str] = []
    for token in tokens:
        joined = token.startswith(_PIECE) and token != _PIECE
        if result and joined and not result[-1].endswith(BPE_MARK):
            result[-1] += BPE_MARK
        result.append(token[len(_PIECE) :] if joined else token)
    return result


def _byte_of() -> Dict[str, int]:
    """The bytes that characters stand for: printable ones for themselves, the others from U+0100 on, in their order."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [byte for byte in range(256) if byte not in shown]
    return {**{chr(byte): byte for byte in shown}, **{chr(256 + place): byte for place, byte in enumerate(hidden)}}


_BYTES = _byte_of()


def _of_bytes(token: str) -> str:
    if not all(letter in _BYTES for letter in token):
        return token  # a special symbol
    text = bytes(_BYTES[letter] for letter in token).decode("utf-8", "replace")
    return PIECE_MARK + text[1:] if text.startswith(" ") else text
