"""Unknown words of a translation, replaced by what the source words are that they were aligned to (Luong et al. 2015,
"Addressing the Rare Word Problem in Neural Machine Translation").

Also ``fairseq-generate --replace-unk``, which stock fairseq has but which fails: without a file it opens one called
"@@ ", with ``--print-alignment`` it takes the pairs of an alignment for numbers, without it the alignment is empty, and
with ``--remove-bpe`` it looks up the positions of subwords among words.
"""

from __future__ import annotations

import functools
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from fairseq_attn_plugin.text.lexicon import best_translations, read_lexicon

from .errors import OptionError

__all__ = ["UNKNOWN", "Replaced", "install", "positions_of", "replace_unknown"]

UNKNOWN = "<unk>"
MARK = "@@"  # subword-nmt ends every piece of a word but the last with this
NO_FILE = "@@ "  # what fairseq makes of --replace-unk without a file


class Replaced(NamedTuple):
    """A hypothesis without unknown words."""

    tokens: List[str]
    words: List[str]  # what stands for each unknown word, in order; UNKNOWN where there is nothing
    from_lexicon: int  # how many of the words are from the lexicon
    copied: int  # how many are source words


def positions_of(alignment: Sequence[Any]) -> Dict[int, int]:
    """{target token: source token}, from what fairseq gives out as alignment.

    Args:
        alignment: pairs (source, target), as ``--print-alignment hard`` gives, or a row of weights for each target
            token and the end, in it a weight for each source token and the end, as ``soft`` does; the greatest counts
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
) -> Replaced:
    """Replaces each ``<unk>`` by the lexicon's translation of the source token it is aligned to, or of the word that
    the token is a piece of, or else copies the source.

    A piece of a split source word is copied as it is where the hypothesis spells the word (the ``<unk>`` continues a
    word, or the next token is aligned to a later piece); otherwise it is the whole word, and only once where ``<unk>``
    follows ``<unk>``. What is aligned to nothing or to a source ``<unk>`` stays.

    Args:
        tokens: the hypothesis, as the model gave it
        source: the source, as the model read it, or with its unknown words
        positions: {position in ``tokens``: position in ``source``}
        lexicon: {source: translation}
    """
    result: List[str] = []
    words: List[str] = []
    counted = [0, 0]
    last_span: Optional[Tuple[int, int]] = None  # of a whole word that the token before stands for
    for place, token in enumerate(tokens):
        position = positions.get(place)
        if token != UNKNOWN or position is None or not 0 <= position < len(source):
            words += [UNKNOWN] * (token == UNKNOWN)
            result.append(token)
            last_span = None
            continue
        piece, span = source[position], _span(source, position)
        word = "".join(_bare(one) for one in source[span[0] : span[1]])
        split, whole = span[1] - span[0] > 1, False
        known = piece in lexicon
        if known:
            found = lexicon[piece]
        elif split and word in lexicon:
            found, known, whole = lexicon[word], True, True
        elif split:
            next_position = positions.get(place + 1)
            spelled_on = next_position is not None and position < next_position < span[1]
            continues = bool(result) and result[-1].endswith(MARK)
            whole = not (spelled_on or continues)
            found = word if whole else piece if spelled_on else _bare(piece)
        else:
            found = piece
        if whole and span == last_span:
            words.append("")
            counted[not known] += 1
            continue
        last_span = span if whole else None
        words.append(found)
        result.append(found)
        if found != UNKNOWN:
            counted[not known] += 1
    return Replaced(result, words, *counted)


def _span(source: Sequence[str], position: int) -> Tuple[int, int]:
    """First piece of the word that a piece belongs to, and the one after its last."""
    first = last = position
    while first > 0 and source[first - 1].endswith(MARK):
        first -= 1
    while last < len(source) - 1 and source[last].endswith(MARK):
        last += 1
    return first, last + 1


def _bare(piece: str) -> str:
    return piece[: -len(MARK)] if piece.endswith(MARK) and piece != MARK else piece


def install() -> None:
    """Mend ``--replace-unk``; calling it again changes nothing."""
    from fairseq import utils

    load, process = utils.load_align_dict, utils.post_process_prediction
    if getattr(process, "replaces_unknown", False):
        return

    @functools.wraps(load)
    def load_align_dict(replace_unk: Optional[str]) -> Optional[Dict[str, str]]:
        if replace_unk is None or replace_unk in ("", NO_FILE):
            return None if replace_unk is None else {}
        return best_translations(read_lexicon(replace_unk, "--replace-unk"))

    @functools.wraps(process)
    def post_process_prediction(
        hypo_tokens: Any,
        src_str: str,
        alignment: Any,
        align_dict: Optional[Dict[str, str]],
        tgt_dict: Any,
        remove_bpe: Optional[str] = None,
        extra_symbols_to_ignore: Any = None,
    ) -> Any:
        if align_dict is None:
            return process(hypo_tokens, src_str, alignment, align_dict, tgt_dict, remove_bpe, extra_symbols_to_ignore)
        from fairseq.data.data_utils import post_process
        from fairseq.tokenizer import tokenize_line

        tokens = tgt_dict.string(hypo_tokens, extra_symbols_to_ignore=extra_symbols_to_ignore).split(" ")
        if tgt_dict.unk_string() in tokens:
            if not len(alignment):
                raise OptionError("--replace-unk: needs the alignment of the words; add --print-alignment")
            replaced = replace_unknown(tokens, tokenize_line(src_str), positions_of(alignment), align_dict)
            tokens = replaced.tokens
        text = post_process(" ".join(tokens), remove_bpe)
        return tgt_dict.encode_line(text, add_if_not_exist=True), text, alignment

    post_process_prediction.replaces_unknown = True  # type: ignore[attr-defined]
    utils.load_align_dict, utils.post_process_prediction = load_align_dict, post_process_prediction
