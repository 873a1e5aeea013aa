"""Unknown words of a translation, replaced by the translation or a copy of the source word they are aligned to.

Luong et al. 2015, "Addressing the Rare Word Problem in Neural Machine Translation". ``fairseq-generate --replace-unk``
(:mod:`fairseq_attn_plugin.patches.right_results`) and ``fairseq-attn translate`` use it.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from .subwords import BPE_MARK

UNKNOWN = "<unk>"


def positions_of(alignment: Sequence[Any]) -> Dict[int, int]:
    """{target token: source token}, from an alignment of fairseq.

    Args:
        alignment: pairs (source, target) as of ``--print-alignment hard``, or rows of weights as of ``soft``: a row
            for each target token and the end, with a weight for each source token and the end; the greatest weight
            counts
    """
    if all(len(item) == 2 and all(isinstance(index, int) for index in item) for item in alignment):
        return {target: source for source, target in alignment}
    positions = {}
    for target, row in enumerate(alignment):
        weights = [float(weight) for weight in row[:-1]]
        if weights:
            positions[target] = max(range(len(weights)), key=weights.__getitem__)
    return positions


def replace_unknown(
    tokens: Sequence[str], source: Sequence[str], positions: Mapping[int, int], lexicon: Mapping[str, str]
) -> List[str]:
    """Replace each ``<unk>`` by the translation of the source token it is aligned to, or else by the source token.

    The lexicon is asked for the token and then for the word that the token is a piece of. A piece of a word that the
    lexicon does not have is copied as it is if the hypothesis spells the word (the ``<unk>`` continues a word, or the
    next token is aligned to a later piece). Otherwise the whole word is copied, and only once if ``<unk>`` follows
    ``<unk>``. An ``<unk>`` that is aligned to nothing or to a source ``<unk>`` stays.

    Args:
        tokens: the hypothesis, as the model gave it
        source: the source, as the model read it, or with its unknown words
        positions: {position in ``tokens``: position in ``source``}
        lexicon: {source: translation}
    """
    result: List[str] = []
    last: Optional[Tuple[int, int]] = None  # the whole source word that the previous token stands for
    for place, token in enumerate(tokens):
        position = positions.get(place)
        if token != UNKNOWN or position is None or not 0 <= position < len(source):
            result.append(token)
            last = None
            continue
        continues = bool(result) and result[-1].endswith(BPE_MARK)
        found = _find(source, position, lexicon, continues, positions.get(place + 1))
        if found.word is None or found.word != last:
            result.append(found.text)
        last = found.word
    return result


class _Found(NamedTuple):
    text: str
    word: Optional[Tuple[int, int]] = None  # if it stands for a whole split word of the source: the pieces of this word


def _find(
    source: Sequence[str], position: int, lexicon: Mapping[str, str], continues: bool, following: Optional[int]
) -> _Found:
    """What replaces an ``<unk>`` that is aligned to ``source[position]``.

    Args:
        continues: whether the token before the ``<unk>`` is the beginning of its word
        following: the position that the token after the ``<unk>`` is aligned to
    """
    piece, span = source[position], _span(source, position)
    if piece in lexicon:
        return _Found(lexicon[piece])
    if span[1] - span[0] == 1:
        return _Found(piece)
    word = "".join(_bare(one) for one in source[span[0] : span[1]])
    if word in lexicon:
        return _Found(lexicon[word], span)
    if following is not None and position < following < span[1]:
        return _Found(piece)
    if continues:
        return _Found(_bare(piece))
    return _Found(word, span)


def _span(source: Sequence[str], position: int) -> Tuple[int, int]:
    """The first piece of the word that a piece belongs to, and the piece after its last."""
    first = last = position
    while first > 0 and source[first - 1].endswith(BPE_MARK):
        first -= 1
    while last < len(source) - 1 and source[last].endswith(BPE_MARK):
        last += 1
    return first, last + 1


def _bare(piece: str) -> str:
    return piece[: -len(BPE_MARK)] if piece.endswith(BPE_MARK) and piece != BPE_MARK else piece
