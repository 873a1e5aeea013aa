"""Unknown words of a translation, replaced by the translation or a copy of the source word they are aligned to.

Luong et al. 2015, "Addressing the Rare Word Problem in Neural Machine Translation". ``fairseq-generate --replace-unk``
(:mod:`fairseq_attn_plugin.patches.right_results`) and ``fairseq-attn translate`` use it.
"""

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .subwords import BPE_MARK, PIECE_MARK, spell, words_of

UNKNOWN = "<unk>"


def positions_of(alignment: Sequence[Any]) -> Dict[int, int]:
    """{target token: source token}, from an alignment of fairseq.

    Args:
        alignment: pairs (source, target) as of ``--print-alignment hard``, or rows of weights as of ``soft``: a row
            for each target token and the end, with a weight for each source token and the end; the greatest weight
            counts, and a row without any weight on a token has no position
    """
    if all(len(item) == 2 and all(isinstance(index, int) for index in item) for item in alignment):
        return {target: source for source, target in alignment}
    positions = {}
    for target, row in enumerate(alignment):
        weights = [float(weight) for weight in row[:-1]]
        if weights and max(weights) > 0:
            positions[target] = max(range(len(weights)), key=weights.__getitem__)
    return positions


def replace_unknown(
    tokens: Sequence[str],
    source: Sequence[str],
    positions: Mapping[int, int],
    lexicon: Mapping[str, str],
    subwords: str = "bpe",
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
        subwords: how words are split, as in :func:`.subwords.words_of`
    """
    words, spelt = words_of(source, subwords), spell(source, subwords)
    mark = PIECE_MARK if subwords == "sentencepiece" else ""
    result: List[str] = []
    last: Optional[int] = None  # the split word of the source that the previous token stands for
    for place, token in enumerate(tokens):
        position = positions.get(place)
        before, last = last, None
        if token != UNKNOWN or position is None or not 0 <= position < len(source):
            result.append(token)
            continue
        piece, word = source[position], words[position]
        later = [other for other in range(position + 1, len(source)) if words[other] == word]
        is_spelt = spelt[word] not in lexicon and positions.get(place + 1) in later
        if piece in lexicon:
            result.append(lexicon[piece])
        elif is_spelt or words.count(word) == 1 and not mark:
            result.append(piece)
        elif spelt[word] not in lexicon and result and result[-1].endswith(BPE_MARK):
            result.append(piece.removesuffix(BPE_MARK))
        else:
            last = word
            if before != word:
                result.append(mark + lexicon.get(spelt[word], spelt[word]))
    return result
