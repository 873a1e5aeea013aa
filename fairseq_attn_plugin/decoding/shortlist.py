"""Vocabulary shortlists: the words that the translation of a batch may consist of.

(L'Hostis, Grangier and Auli 2016, "Vocabulary Selection Strategies for Neural Machine Translation".)

    words(batch) = { the ``size`` likeliest translations of each source word of the batch, by a lexicon }
                 + { the ``frequent`` most frequent target words } + { special symbols } + { words of the prefix }

The decoder projects onto these words alone, and its probabilities sum to one over them. A source word that the lexicon
does not know stands for itself, where it is a target word.
"""

import logging
from typing import Any, List, Optional

import torch
from torch import Tensor

from ..errors import OptionError
from ..text.lexicon import read_lexicon

logger = logging.getLogger(__name__)

OPTION = "--shortlist"


class Shortlist:
    """A lexicon, and the words that are in every shortlist.

    Args:
        path: lines of source, target and probability, as ``fairseq-attn lexicon`` writes them
        size: translations of each source word, at most
        frequent: words in the order of the target dictionary, whose first ones are the most frequent
        source_dictionary: fairseq's dictionary of the source
        target_dictionary: fairseq's dictionary of the target

    Attributes:
        translations: ``[S, size]``, target words of each source word; the end of the sentence where there are fewer
        always: ``[V]``, whether a word is in every shortlist

    Raises:
        OptionError: the file cannot be read or has malformed lines, or fewer than half of its source words are in the
            vocabulary, with a translation in the other
    """

    def __init__(self, path: str, size: int, frequent: int, source_dictionary: Any, target_dictionary: Any):
        lexicon = read_lexicon(path, OPTION, probabilities=True, sums=False)
        sources, targets = source_dictionary.indices, target_dictionary.indices
        rows: List[List[int]] = [[] for _ in range(len(source_dictionary))]
        known = 0
        for source, entries in lexicon.items():
            found = [targets[entry.target] for entry in entries if entry.target in targets and entry.probability > 0]
            if source in sources and found:
                known += 1
                rows[sources[source]] = found[:size]
        if 2 * known < len(lexicon):
            raise OptionError(
                f"{OPTION} {path}: only {known} of its {len(lexicon)} source words have a translation within the "
                "vocabularies of the data; make it from the same words or subwords (fairseq-attn lexicon --level)"
            )
        for row, symbol in zip(rows, source_dictionary.symbols):
            if not row and symbol in targets:
                row.append(targets[symbol])
        width = max(map(len, rows))
        filled = [row + [target_dictionary.eos()] * (width - len(row)) for row in rows]
        self.translations = torch.tensor(filled, dtype=torch.int32)
        self.always = torch.zeros(len(target_dictionary), dtype=torch.bool)
        self.always[: target_dictionary.nspecial + frequent] = True
        logger.info(f"{OPTION} {path}: translations of {known:,} of {len(source_dictionary):,} source symbols")

    def words(self, src_tokens: Tensor, prefix: Optional[Tensor] = None, multiple: int = 1) -> Tensor:
        """The ascending indices ``[K]`` of a batch's words.

        Args:
            src_tokens: ``[B, N]``
            prefix: ``[B, P]``, target words that must be among them, or None
            multiple: their number is a multiple of it, or that of all words: the most frequent other words are added
        """
        chosen = self.always.clone()
        chosen[self.translations[src_tokens.flatten()].flatten()] = True
        if prefix is not None:
            chosen[prefix.flatten()] = True
        found = chosen.nonzero().squeeze(1)
        if len(found) % multiple:
            chosen[chosen.logical_not().nonzero()[: -len(found) % multiple]] = True
            found = chosen.nonzero().squeeze(1)
        return found
