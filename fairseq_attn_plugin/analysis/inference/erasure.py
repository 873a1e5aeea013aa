"""Takes words out of a source: what is erased together, and what is left."""

from __future__ import annotations

from typing import Any, List, Sequence

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.segmenter import vocabulary_subwords
from fairseq_attn_plugin.analysis.inference.sentences import SourceSentence
from fairseq_attn_plugin.text.subwords import words_of

__all__ = ["ERASURES", "UNITS", "erased", "source_units"]

ERASURES = ("remove", "unk")
UNITS = ("word", "subword")


def source_units(loaded: Any, sentence: SourceSentence, unit: str = "word") -> List[List[int]]:
    """The positions of the source that are erased together, in order; the end of the sentence is a unit of its own.

    Args:
        loaded: the models, whose source vocabulary says how words were split
        sentence: with N positions, the end among them
        unit: ``word`` or ``subword``
    """
    size = len(sentence.source)
    if unit == "subword":
        return [[place] for place in range(size)]
    groups: List[List[int]] = []
    words = words_of(sentence.source_tokens, vocabulary_subwords(loaded.task.source_dictionary))
    for place, word in enumerate(words):
        if word == len(groups):
            groups.append([])
        groups[word].append(place)
    return groups + [[place] for place in range(len(words), size)]


def erased(loaded: Any, source: Tensor, places: Sequence[int], how: str = "remove") -> Tensor:
    """The source ``[N]`` without what stands at ``places``.

    Args:
        loaded: the models, for their source vocabulary
        source: symbols
        places: positions to erase
        how: ``remove`` makes the source shorter, ``unk`` puts ``<unk>`` there; where nothing would be left, one
            ``<unk>`` is left
    """
    gone = torch.zeros(len(source), dtype=torch.bool)
    gone[list(places)] = True
    unk = loaded.task.source_dictionary.unk()
    if how == "unk":
        return source.masked_fill(gone, unk)
    return source.new_tensor([unk]) if bool(gone.all()) else source[~gone]
