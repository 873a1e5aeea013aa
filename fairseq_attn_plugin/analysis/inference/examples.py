"""Sentences that a reader may try first: short ones from the corpus of a model, as she would type them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, Sequence

__all__ = ["corpus_examples"]

_SPLITS = ("test", "valid")
_WORDS = range(5, 13)  # of an example
_TRIED = 200  # sentences of a split


def corpus_examples(data: str, languages: Sequence[str], dictionary: Any, segmenter: Any, count: int = 3) -> List[str]:
    """Source sentences of a binarised corpus, none with a word that the dictionary lacks; none without a corpus.

    Args:
        data: folder of fairseq-preprocess
        languages: source and target
        dictionary: of the source
        segmenter: makes tokens of a text; only sentences that it makes into the tokens of the corpus are taken
        count: how many at most
    """
    from fairseq.data import data_utils

    from fairseq_attn_plugin.text.subwords import spell

    from .segmenter import vocabulary_subwords

    subwords, (source, target) = vocabulary_subwords(dictionary), languages
    found: List[str] = []
    for split in _SPLITS:
        for pair in (f"{source}-{target}", f"{target}-{source}"):
            try:
                corpus = data_utils.load_indexed_dataset(str(Path(data, f"{split}.{pair}.{source}")), dictionary)
                sentences = [] if corpus is None else [corpus[n].tolist() for n in range(min(_TRIED, len(corpus)))]
            except Exception:  # damaged files raise what they like; a model translates without its corpus
                sentences = []
            for indices in sentences:
                tokens = [dictionary[index] for index in indices if index != dictionary.eos()]
                words = spell(tokens, subwords)
                text = segmenter.typed(words)
                if len(words) not in _WORDS or dictionary.unk() in indices or segmenter(text) != tokens:
                    continue
                if text not in found:
                    found.append(text)
                if len(found) == count:
                    return found
    return found
