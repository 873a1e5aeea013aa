"""Beam search, greedy search and sampling over the steppers of an ensemble, as fairseq's SequenceGenerator does them.

At each step a sentence has W hypotheses (one at first, then ``beam``) and 2 * ``beam`` candidates: the greatest sums of
a hypothesis's score and log p of a next word. A candidate that ends the sentence and is among the first ``beam`` of
them is a finished hypothesis. The first ``beam`` candidates that do not end go on. A sentence is finished when it has
``beam`` finished hypotheses. At the last step every hypothesis ends.

Everything happens on tensors of all sentences and hypotheses. Nothing grows with the steps but the
:class:`~fairseq_attn_plugin.decoding.hypotheses.Hypotheses`. Finished sentences leave the batch when they are a quarter
of it.
"""

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from ..ops.devices import on_gpu
from .constraints import Constraints
from .hypotheses import Hypotheses
from .stepper import ModelStepper

LEAVES = 4  # finished sentences leave when they are one in so many
STEP = 4  # numbers of sentences are multiples of it, because oneDNN compiles a kernel for each number of rows
SIZE = 16  # places of a block in :func:`best_continuations`


class Candidates(NamedTuple):
    """The candidates of a step, the best first, ``[S, C]`` each for S sentences."""

    scores: Tensor  # sums of log p
    parents: Tensor  # the rows that they continue
    words: Tensor


class Search:
    """The search of one batch of B sentences.

    Args:
        steppers: the models of the ensemble
        net_input: fairseq's batch
        options: the generator, :class:`~fairseq_attn_plugin.decoding.generator.Generator`
        max_len: the step at which every hypothesis ends
        first: the word before the first one
        prefix: ``[B, P]``, words with which the translations begin, with padding, or None
    """

    def __init__(
        self,
        steppers: Sequence[ModelStepper],
        net_input: Dict[str, Any],
        options: Any,
        max_len: int,
        first: int,
        prefix: Optional[Tensor] = None,
    ):
        self.options, self.max_len, self.beam, self.sampling = options, max_len, options.beam_size, options.sampling
        source = net_input["src_tokens"]
        self.steppers = steppers
        self.states: List[Any] = [stepper.begin(net_input, prefix) for stepper in steppers]
        self.vocabulary: Optional[Tensor] = self.states[0].vocabulary  # [K], the words to choose from; None: all
        lengths = net_input["src_lengths"]
        self.constraints = Constraints(options, self.vocabulary, max_len, lengths, prefix)
        self.sentences = list(range(len(source)))  # those that are still searched
        self.tokens = source.new_full((len(source),), first)  # [R], the last words
        self.scores: Optional[Tensor] = None  # [S, W]
        self.ignored: Optional[Tensor] = None  # [S, beam], hypotheses that have ended and have no successor
        self.seen = Hypotheses(len(source), self.beam, source.device)
        self.order = torch.arange(2 * self.beam, device=source.device)

    @torch.inference_mode()
    def run(self) -> None:
        """Searches until every sentence is finished."""
        one = self.beam == len(self.sentences) == 1 and self.sampling is None
        (self._greedy if one else self._search)()

    def _search(self) -> None:
        for step in range(self.max_len + 1):
            found, ends, first = self._step(step)
            stay = None
            some = bool(ends.any())
            if some and bool(first.any()):
                stay = self._finish(found, first, step)
            if step == self.max_len or (stay is not None and not len(stay)):
                break
            if some or self.ignored is not None:
                found = self._without_ends(found, ends)
            self._advance(found, stay)

    def log_probs(self, tokens: Tensor, step: Union[int, Tensor]) -> Tuple[Tensor, Optional[Tensor]]:
        """log p ``[R, K]`` of the next word after ``tokens`` ``[R]``, to be written into, and attention ``[R, N]``: of
        an ensemble the means of the models' probabilities and weights. Numbers that are not finite, which a softmax
        spreads to all words of a row, give no word a probability."""
        found = [stepper.step(tokens, state, step) for stepper, state in zip(self.steppers, self.states)]
        self.states = [state for _, _, state in found]
        log_probs, attention, _ = found[0]
        if len(found) > 1:
            log_probs = torch.stack([one for one, _, _ in found]).logsumexp(0).sub_(math.log(len(found)))
            weights = [each for _, each, _ in found if each is not None]
            attention = sum(weights[1:], weights[0]) / len(found) if weights else None
        if on_gpu(log_probs) or bool(log_probs[:, 0].isnan().any()):
            log_probs.nan_to_num_(-math.inf, math.inf, -math.inf)
        return log_probs, attention

    def select(self, rows: Tensor, sentences: Optional[Tensor]) -> None:
        """Keeps the rows of the models' states that go on; see :meth:`ModelStepper.select`."""
        self.states = [stepper.select(state, rows, sentences) for stepper, state in zip(self.steppers, self.states)]

    def _step(self, step: int) -> Tuple[Candidates, Tensor, Tensor]:
        """The candidates of a step, which of them end, and which are finished hypotheses, ``[S, beam]``."""
        log_probs, weights = self.log_probs(self.tokens, step)
        self.seen.attend(weights)
        found = self._candidates(log_probs, step, self.constraints.apply(log_probs, step))
        return (found, *self._ends(found))

    def _ends(self, found: Candidates) -> Tuple[Tensor, Tensor]:
        """Which candidates end, and which are finished hypotheses, ``[S, beam]``."""
        ends = found.words.eq(self.options.eos) & found.scores.ne(-math.inf)
        first = ends[:, : self.beam]
        return ends, first if self.ignored is None else first & ~self.ignored

    def _greedy(self) -> None:
        """The same for one hypothesis of one sentence, where nothing is to be sorted or selected."""
        eos, vocabulary, row = self.options.eos, self.vocabulary, torch.zeros_like(self.tokens)
        past: Optional[Tensor] = None
        for step in range(self.max_len + 1):
            log_probs, weights = self.log_probs(self.tokens, step)
            self.seen.attend(weights)
            self.constraints.apply(log_probs, step)
            scores, words = log_probs.max(1)
            past = scores if past is None else scores + past
            self.tokens = words if vocabulary is None else vocabulary.take(words)
            if self.tokens.item() == eos and past.item() != -math.inf:
                self.seen.add(row.eq(0), self.sentences, row, past, step)
                return
            self.seen.extend(row, self.tokens, past)
            self.constraints.select(row, self.tokens, None)

    def hypotheses(self) -> List[List[Dict[str, Any]]]:
        """For each sentence its finished hypotheses, the best first, as fairseq returns them."""
        options = self.options
        power = options.wu_penalty or (options.len_penalty if options.normalize_scores else 0.0)
        sizes = range(1, len(self.seen.starts))  # words with the end
        bases = [(5 + size + 1) / 6 if options.wu_penalty else size for size in sizes]
        divisors = [float(np.float32(base**power)) for base in bases]
        return self.seen.read(options.eos, divisors)

    def _candidates(self, log_probs: Tensor, step: int, taken: Optional[Tensor]) -> Candidates:
        beam, sentences = self.beam, len(self.sentences)
        table = log_probs.view(sentences, -1, log_probs.size(1))
        hypotheses = table.size(1)
        past = self.scores
        if taken is not None and past is not None:
            past = past.reshape(-1)[taken].view(past.shape)
        rows: Optional[Tensor] = None
        if self.sampling is not None:
            # fairseq samples from the first of the equal hypotheses of the first step
            table = table.expand(-1, beam, -1) if past is None else table
            sums = past if past is None else past.unsqueeze(2).expand(-1, -1, step)
            scores, words, rows = self.sampling.step(step, table, sums)
        elif beam == 1:
            scores, words = table.squeeze(1).max(1, keepdim=True)
            scores = scores if past is None else scores + past
        else:
            count = min(2 * beam, table[0].numel() - 1)
            scores, rows, words = best_continuations(table, past, count)
        if self.vocabulary is not None:
            words = self.vocabulary.take(words)
        if sentences > 1 or rows is None:  # the first row of each sentence
            first = torch.arange(0, sentences * hypotheses, hypotheses, device=words.device).unsqueeze(1)
            rows = first.expand_as(words) if rows is None else rows + first
        return Candidates(scores, rows if taken is None else taken[rows], words)

    def _add(self, found: Candidates, first: Tensor, step: int) -> List[int]:
        """Adds the hypotheses that end, ``first`` ``[S, beam]``; returns the sentences that lack some."""
        return self.seen.add(first, self.sentences, found.parents[:, : self.beam], found.scores[:, : self.beam], step)

    def _finish(self, found: Candidates, first: Tensor, step: int) -> Optional[Tensor]:
        """Adds the hypotheses that end; returns the sentences that stay, None: all of them."""
        left, count = self._add(found, first, step), len(self.sentences)
        if self.sampling is None:  # which draws for the sentences that are left
            done = sorted(set(range(count)) - set(left))
            few = left and len(done) * LEAVES < count
            left = sorted(left + (done if few else done[: -len(left) % STEP]))
        if len(left) == count:
            return None
        self.sentences = [self.sentences[place] for place in left]
        return torch.tensor(left, dtype=torch.long, device=first.device)

    def _without_ends(self, found: Candidates, ends: Tensor) -> Candidates:
        """The first ``beam`` candidates that do not end; where there are fewer, :attr:`ignored` marks the others."""
        beam, count = self.beam, ends.size(1)
        if self.ignored is not None:
            ends[:, :beam] |= self.ignored
        order = self.order[:count]
        order, active = torch.where(ends, order + 2 * beam, order).topk(beam, dim=1, largest=False)
        full = count == 2 * beam and self.ignored is None
        self.ignored = None if full else order >= 2 * beam
        return Candidates(*(part.gather(1, active) for part in found))

    def _advance(self, found: Candidates, stay: Optional[Tensor]) -> None:
        """Goes on with the first ``beam`` candidates."""
        found = Candidates(*(part[:, : self.beam] for part in found))
        if stay is not None:
            found = Candidates(*(part.index_select(0, stay) for part in found))
            self.ignored = None if self.ignored is None else self.ignored.index_select(0, stay)
        self.scores, rows, self.tokens = found.scores, found.parents.reshape(-1), found.words.reshape(-1)
        self.seen.extend(rows, self.tokens, self.scores.reshape(-1))
        self.constraints.select(rows, self.tokens, stay)
        if self.beam > 1 or stay is not None:
            self.select(rows, stay)


def best_continuations(log_probs: Tensor, scores: Optional[Tensor], count: int) -> Tuple[Tensor, Tensor, Tensor]:
    """The ``count`` greatest log_probs + scores of each sentence, the greatest first.

    torch.topk reads all numbers with comparisons and branches. On a processor it is faster to find the maxima of blocks
    first: the k greatest numbers lie in the k blocks with the greatest maxima, and torch.topk looks at these only.

    Args:
        log_probs: ``[B, W, K]``, of the next word, for W hypotheses of each sentence; is written into
        scores: ``[B, W]``, of the hypotheses, or None: zero
        count: how many

    Returns:
        their sums, hypotheses (from 0 to W - 1) and words (from 0 to K - 1), ``[B, count]`` each
    """
    sums = (log_probs if scores is None else log_probs.add_(scores.unsqueeze(2))).flatten(1)
    sentences, size = sums.shape
    blocks = size // SIZE  # block j has the places j, j + blocks, j + 2 blocks, ...
    # worth its many small steps where there is much to read
    if size < (32768 if sentences == 1 else 1024) or blocks < 2 * count or sums.device.type != "cpu":
        best, places = sums.topk(count, dim=1)
    else:
        chosen = sums[:, : blocks * SIZE].unflatten(1, (SIZE, blocks)).amax(1).topk(count, dim=1, sorted=False).indices
        read = (chosen.unsqueeze(2) + blocks * torch.arange(SIZE)).flatten(1)
        read = torch.cat([read, torch.arange(blocks * SIZE, size).expand(sentences, -1)], 1)  # what is in no block
        best, index = sums.gather(1, read).topk(count, dim=1)
        places = read.gather(1, index)
    rows = places.div(log_probs.size(2), rounding_mode="floor")
    return best, rows, places - rows * log_probs.size(2)
