"""What the options of a search do to the log-probabilities ``[R, K]`` of a step, in the order of fairseq."""

import math
from typing import Any, Optional

import torch
from torch import Tensor

from ..attention import index_rows


class Constraints:
    """The constraints of the search of B sentences.

    Args:
        options: the generator, :class:`~fairseq_attn_plugin.decoding.generator.Generator`
        vocabulary: the words to choose from ``[K]``, ascending; the special ones are among them, and those of the
            prefix. None: all
        max_len: the step at which every hypothesis ends
        lengths: ``[B]``, the words of the sources, with their ends
        prefix: ``[B, P]``, words with which the translations begin, with padding; None: free
    """

    def __init__(
        self,
        options: Any,
        vocabulary: Optional[Tensor],
        max_len: int,
        lengths: Tensor,
        prefix: Optional[Tensor] = None,
    ):
        self.options, self.vocabulary, self.max_len, self.prefix = options, vocabulary, max_len, prefix
        self.eos_norm = options.eos_norm * (lengths - 1) if options.eos_norm else None
        self.history: Optional[Tensor] = None  # [R, steps], the words so far, where n-grams are counted
        # those of padding and the unknown word are the same among the words to choose from
        self.eos = options.eos if vocabulary is None else int(torch.searchsorted(vocabulary, options.eos))

    def apply(self, log_probs: Tensor, step: Optional[int]) -> Optional[Tensor]:
        """Changes ``log_probs`` ``[R, K]`` in place; without a ``step`` as all steps have in common.

        Returns:
            for each row the row ``[R]`` whose history and log-probabilities it takes over, or None: its own. A prefix
            that holds the end of the sentence gives all hypotheses of the sentence to the first one.
        """
        eos, taken = self.eos, None
        log_probs.select(1, self.options.pad).fill_(-math.inf)  # a third of the time of an assignment by index
        if self.options.unk_penalty:
            log_probs[:, self.options.unk] -= self.options.unk_penalty
        if step is None:
            return None
        if self.eos_norm is not None:
            log_probs[:, eos] -= self.eos_norm.repeat_interleave(len(log_probs) // len(self.eos_norm)) / (step + 2)
        if step >= self.max_len:
            end = log_probs[:, eos].clone()
            log_probs.fill_(-math.inf)[:, eos] = end
        given: Optional[Tensor] = None
        if self.prefix is not None and step < self.prefix.size(1) and step < self.max_len:
            given = self.prefix[:, step].repeat_interleave(len(log_probs) // len(self.prefix))
            taken = self._force(log_probs, given)
        elif step < self.options.min_len:
            log_probs.select(1, eos).fill_(-math.inf)
        if self.options.no_repeat and self.history is not None:
            self._forbid_repetitions(log_probs, self.history, given)
        return taken

    def select(self, rows: Tensor, words: Tensor, sentences: Optional[Tensor]) -> None:
        """Follows the search: new row ``[R']`` continues old row ``rows`` by ``words``; ``sentences`` stay, or all."""
        if self.options.no_repeat:
            new = words.unsqueeze(1)
            self.history = new if self.history is None else torch.cat([self.history.index_select(0, rows), new], 1)
        if sentences is not None:
            self.prefix, self.eos_norm = index_rows((self.prefix, self.eos_norm), sentences)

    def _places(self, words: Tensor) -> Tensor:
        """Where words are among those to choose from."""
        return words if self.vocabulary is None else torch.searchsorted(self.vocabulary, words)

    def _force(self, log_probs: Tensor, words: Tensor) -> Optional[Tensor]:
        """Leaves only the words ``[R]`` of the prefix, except where it is padding."""
        assert self.prefix is not None
        hypotheses = len(words) // len(self.prefix)
        places = self._places(words).unsqueeze(1)
        forced = torch.full_like(log_probs, -math.inf).scatter(1, places, log_probs.gather(1, places))
        log_probs.copy_(torch.where(words.ne(self.options.pad).unsqueeze(1), forced, log_probs))
        ended = words.eq(self.options.eos)
        if not bool(ended.any()):
            return None
        rows = torch.arange(len(words), device=words.device)
        taken = torch.where(ended, rows - rows % hypotheses, rows)
        log_probs.copy_(log_probs.index_select(0, taken))
        return taken

    def _forbid_repetitions(self, log_probs: Tensor, history: Tensor, given: Optional[Tensor]) -> None:
        """No n-gram twice: a word that is not ``given`` is forbidden if it followed the last n - 1 words before."""
        steps, before = history.size(1), self.options.no_repeat - 1
        if steps <= before:
            return
        grams = history.unfold(1, before + 1, 1)  # [R, n-grams, n]
        last = history[:, steps - before :].unsqueeze(1)
        repeated = (grams[:, :, :before] == last).all(2)
        if given is not None:
            repeated &= given.eq(self.options.pad).unsqueeze(1)
        words = grams[:, :, -1].masked_fill(~repeated, self.options.pad)
        log_probs.scatter_(1, self._places(words), -math.inf)
