"""What the options of a search do to the log-probabilities ``[R, K]`` of a step, in the order of fairseq."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, Optional

import torch
from torch import Tensor

__all__ = ["Constraints", "Symbols"]


@dataclass(frozen=True)
class Symbols:
    """The special words of a target dictionary."""

    pad: int
    unk: int
    eos: int


class Constraints:
    """The constraints of the search of B sentences.

    Args:
        symbols: the special words
        vocabulary: the words to choose from ``[K]``, ascending; None: all
        max_len: the step at which every hypothesis ends
        min_len: before this step none ends, unless there is a prefix
        unk_penalty: subtracted from log p of the unknown word
        no_repeat: n-grams of this length occur once in a hypothesis; 0: no limit
        prefix: ``[B, P]``, words with which the translations begin, with padding; None: free
        lengths: ``[B]``, hypotheses end at this step; None: whenever they do
        eos_norm: ``[B]``, gamma |X| of sources of |X| words; gamma |X| / |Y| is subtracted from log p of the end, |Y|
            counting words, start and end (as OpenNMT's ``-eos_norm``); None: nothing
    """

    def __init__(
        self,
        symbols: Symbols,
        vocabulary: Optional[Tensor],
        max_len: int,
        min_len: int = 1,
        unk_penalty: float = 0.0,
        no_repeat: int = 0,
        prefix: Optional[Tensor] = None,
        lengths: Optional[Tensor] = None,
        eos_norm: Optional[Tensor] = None,
    ):
        self.symbols, self.vocabulary, self.max_len, self.min_len = symbols, vocabulary, max_len, min_len
        self.unk_penalty, self.no_repeat, self.prefix, self.lengths = unk_penalty, no_repeat, prefix, lengths
        self.eos_norm = eos_norm
        self.history: Optional[Tensor] = None  # [R, steps], the words so far, where n-grams are counted
        special = {"pad": symbols.pad, "unk": symbols.unk, "eos": symbols.eos}
        self.places: Dict[str, Optional[int]] = {name: self._place(index) for name, index in special.items()}

    def apply(self, log_probs: Tensor, step: Optional[int]) -> Optional[Tensor]:
        """Changes ``log_probs`` ``[R, K]`` in place; without a ``step`` as all steps have in common.

        Returns:
            for each row the row ``[R]`` whose history and log-probabilities it takes over, or None: its own. A prefix
            that holds the end of the sentence gives all hypotheses of the sentence to the first one.
        """
        pad, unk, eos = (self.places[name] for name in ("pad", "unk", "eos"))
        taken = None
        if pad is not None:
            log_probs.select(1, pad).fill_(-math.inf)  # a third of the time of an assignment by index
        if unk is not None and self.unk_penalty:
            log_probs[:, unk] -= self.unk_penalty
        if step is None:
            return None
        if self.eos_norm is not None:
            log_probs[:, eos] -= self.eos_norm.repeat_interleave(len(log_probs) // len(self.eos_norm)) / (step + 2)
        if step >= self.max_len:
            end = log_probs[:, eos].clone()
            log_probs.fill_(-math.inf)[:, eos] = end
        if self.prefix is not None and step < self.prefix.size(1) and step < self.max_len:
            taken = self._force(log_probs, step)
        elif step < self.min_len:
            log_probs.select(1, eos).fill_(-math.inf)
        if self.no_repeat and self.history is not None:
            self._forbid_repetitions(log_probs, self.history)
        if self.lengths is not None:
            lengths = self.lengths.repeat_interleave(len(log_probs) // len(self.lengths))
            log_probs[:, eos] = torch.where(lengths > step, -math.inf, 0.0)
        return taken

    def select(self, rows: Tensor, words: Tensor, sentences: Optional[Tensor]) -> None:
        """Follows the search: new row ``[R']`` continues old row ``rows`` by ``words``; ``sentences`` stay, or all."""
        if self.no_repeat:
            new = words.unsqueeze(1)
            self.history = new if self.history is None else torch.cat([self.history.index_select(0, rows), new], 1)
        if sentences is not None:
            self.prefix = None if self.prefix is None else self.prefix.index_select(0, sentences)
            self.lengths = None if self.lengths is None else self.lengths.index_select(0, sentences)
            self.eos_norm = None if self.eos_norm is None else self.eos_norm.index_select(0, sentences)

    def _place(self, word: int) -> Optional[int]:
        """Where a word is among the words to choose from, or None."""
        if self.vocabulary is None:
            return word
        place = int(torch.searchsorted(self.vocabulary, word))
        return place if place < len(self.vocabulary) and int(self.vocabulary[place]) == word else None

    def _places(self, words: Tensor) -> Tensor:
        if self.vocabulary is None:
            return words
        return torch.searchsorted(self.vocabulary, words).clamp(max=len(self.vocabulary) - 1)

    def _force(self, log_probs: Tensor, step: int) -> Optional[Tensor]:
        """Leaves only the words of the prefix, except where it is padding."""
        assert self.prefix is not None
        hypotheses = len(log_probs) // len(self.prefix)
        words = self.prefix[:, step].repeat_interleave(hypotheses)
        places = self._places(words).unsqueeze(1)
        forced = torch.full_like(log_probs, -math.inf).scatter(1, places, log_probs.gather(1, places))
        log_probs.copy_(torch.where(words.ne(self.symbols.pad).unsqueeze(1), forced, log_probs))
        ended = words.eq(self.symbols.eos)
        if not bool(ended.any()):
            return None
        rows = torch.arange(len(words), device=words.device)
        taken = torch.where(ended, rows - rows % hypotheses, rows)
        log_probs.copy_(log_probs.index_select(0, taken))
        return taken

    def _forbid_repetitions(self, log_probs: Tensor, history: Tensor) -> None:
        """No n-gram twice: a word is forbidden if it followed the last n - 1 words before."""
        steps, before = history.size(1), self.no_repeat - 1
        if steps <= before:
            return
        grams = history.unfold(1, self.no_repeat, 1)  # [R, n-grams, n]
        last = history[:, steps - before :].unsqueeze(1)
        repeated = (grams[:, :, :before] == last).all(2)
        words = grams[:, :, -1].masked_fill(~repeated, self.symbols.pad)
        log_probs.scatter_(1, self._places(words), -math.inf)
