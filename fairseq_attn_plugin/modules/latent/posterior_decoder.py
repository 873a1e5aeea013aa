"""The decoder of posterior attention (Shankar and Sarawagi 2019, "Posterior Attention Models for Sequence to Sequence
Learning").

The alignment z_t is latent, as in :mod:`.latent_decoder`. Once y_t is known, it says more of
z_t than the prior did, and the next step reads that:

    q_t(j) = p(z_t = j | x, y_<=t) = p(z_t = j) p(y_t | z_t = j) / sum_k p(z_t = k) p(y_t | z_t = k)

The recurrence is fed the posterior's mean context sum_j q_t(j) h_j, and biases that look back (``--attention-bias
markov``: the paper's coupling of the next prior to neighbours of the last posterior; ``fertility``) and other recurrent
mechanisms see q_t in the place of the weights. The same in training and in a search, where y_t is the word that the
hypothesis took; gradients pass through q_t.

For that, each step computes the vocabulary once for each position with a tanh, and once in all with ``--output-layer
linear``: then p(y_t | z_t = j) follows for all j from a product with exponentials that a sentence has once
(:mod:`fairseq_attn_plugin.ops.likelihoods.separable`).
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...attention import AttentionOutput
from ...ops.deferred import linear, matmul, matmul_transposed, project, share
from ...ops.likelihoods.alignment_blocks import rows_of_a_block
from ...ops.likelihoods.separable import log_posterior_of
from ...ops.likelihoods.vocabulary_loss import SAFE_SUMS
from ...ops.precision import fixed_weights, in_full, recomputed
from ..decoder_state import Decoded, DecoderInputs, Progress
from ..encoders.source_encoder import EncoderOut
from ..source_memory import SentenceAttention, SourceMemory
from .latent_decoder import LatentDecoder


class Held(NamedTuple):
    """What a step keeps until its word is known, in the place of the attention's state."""

    log_prior: Tensor  # [R, 1, N]
    before: Any  # the attention's state before the step


class HeldAttention(SentenceAttention):
    """The attention of one step, which keeps its prior; B sentences with M = R / B rows each."""

    def __init__(self, decoder: PosteriorDecoder, memory: SourceMemory, encoder_out: EncoderOut):
        assert decoder.attention is not None and memory.projected is not None
        sentences = len(encoder_out["encodings"])
        super().__init__(decoder.attention, memory.attention, sentences, intervention=decoder.intervention)
        self.decoder, self.projected, self.exponentials = decoder, memory.projected, memory.exponentials
        self.encodings, self.pad_mask = share(encoder_out["encodings"]), encoder_out["pad_mask"]
        self.words: Sequence[Tensor] = ()  # of each step, [R]
        if self.exponentials is not None:
            weight, self.bias = decoder.vocabulary
            self.of_encodings, self.of_states = weight.split([self.encodings.size(-1), decoder.hidden_size], dim=1)
            self.of_states = share(self.of_states)
            self.rows: Sequence[Tensor] = ()  # of the encodings' part of the vocabulary matrix, for each step's words
            self.lowest = in_full(self.encodings.new_ones(()))  # the least sum of exponentials

    def read(self, words: Tensor) -> None:
        """The words of all steps ``[R, T]``."""
        fixed = fixed_weights()
        words = words if fixed is None else fixed.places(words)
        self.words = words.unbind(1)
        if self.exponentials is not None:
            self.rows = F.embedding(words, self.of_encodings).unbind(1)

    def by_sentence(self, x: Tensor) -> Tensor:
        """``[R, ...]`` to ``[B, M, ...]``."""
        return x.view(self.sentences, -1, *x.shape[1:])

    def __call__(self, query: Tensor, state: Any, positions: Tensor, words: Optional[Tensor] = None) -> AttentionOutput:
        out = super().__call__(query, state, positions, words)
        weights, scores = (self.by_sentence(x.squeeze(1)) for x in (out.weights, out.scores))
        log_prior, _ = self.decoder.log_prior(weights, scores, self.pad_mask)
        return out._replace(state=Held(log_prior.reshape(len(query), 1, -1), state))

    def log_posterior(self, log_prior: Tensor, hidden: Tensor, t: int) -> Optional[Tensor]:
        """log p(z = j) p(y | z = j) ``[B, M, N]`` of word ``t``, up to a constant of each row, by the exponentials of
        the positions; None without these, or where they are not enough. ``hidden`` ``[R, Ds]`` predicted the word."""
        if self.exponentials is None:
            return None
        logits = in_full(self.by_sentence(linear(hidden, self.of_states, self.bias)))
        words = in_full(matmul_transposed(self.by_sentence(self.rows[t]), self.encodings))
        found, lowest = log_posterior_of(log_prior, logits, words, self.exponentials)
        if self.intervention is not None:  # a second decode would ask it again
            return found if lowest > SAFE_SUMS[0] else None
        self.lowest = torch.minimum(self.lowest, lowest)
        return found


class PosteriorDecoder(LatentDecoder):
    """LSTM decoder that is fed the posterior of the last alignment.

    Attributes:
        posterior_topk: the posterior is that among this many positions, the most probable under the prior; None: all
    """

    revises = True
    posterior_topk: Optional[int] = None

    def attention_to(self, memory: SourceMemory, encoder_out: EncoderOut) -> HeldAttention:
        return HeldAttention(self, memory, encoder_out)

    def _decode_stepwise(self, inputs: DecoderInputs, attend: Any, progress: Progress) -> Decoded:
        decoded = super()._decode_stepwise(inputs, attend, progress)
        asked = attend.exponentials is None or attend.intervention is not None  # in each step
        if not asked and not attend.lowest > SAFE_SUMS[0]:  # once, since the host waits for the answer
            del decoded  # and its graph
            attend.exponentials = None
            decoded = super()._decode_stepwise(inputs, attend, progress)
        return decoded

    def revise(
        self, attend: Any, feed: Optional[Tensor], state: Any, hidden: Tensor, inputs: DecoderInputs, t: int
    ) -> Tuple[Optional[Tensor], Any]:
        if not isinstance(state, Held):  # before the first step
            return feed, state
        assert self.attention is not None and inputs.words is not None
        if not attend.words:
            attend.read(inputs.words)
        weights = self.posterior(attend, attend.by_sentence(state.log_prior.squeeze(1)), hidden, t)
        weights = weights.type_as(attend.encodings)
        context = matmul(weights, attend.encodings)
        rows = weights.reshape(len(hidden), 1, -1)
        return context.reshape(len(hidden), -1), self.attention.advance(state.before, rows)

    def posterior(self, attend: HeldAttention, log_prior: Tensor, hidden: Tensor, t: int) -> Tensor:
        """q(j) of the module's text.

        Args:
            attend: the attention to B sentences
            log_prior: ``[B, M, N]``
            hidden: ``[R, Ds]``, the states from which the words were predicted
            t: the step that reads the words

        Returns:
            ``[B, M, N]``
        """
        found = attend.log_posterior(log_prior, hidden, t)
        if found is not None and self.posterior_topk is None:
            return found.to(log_prior.dtype).softmax(-1)
        known, index = log_prior.topk(min(self.posterior_topk or log_prior.size(-1), log_prior.size(-1)), dim=-1)
        if found is None:
            query, words = attend.by_sentence(self.of_states(hidden)), attend.by_sentence(attend.words[t])
            # recomputed, so that the logits of all alignments of a step exist in one step at a time
            likelihoods = recomputed(self._log_likelihoods, attend.projected, query, index, words)
            found = known + likelihoods.to(known.dtype)
        else:
            found = found.gather(-1, index)
        return torch.zeros_like(log_prior).scatter(-1, index, found.to(log_prior.dtype).softmax(-1))

    def _log_likelihoods(self, memory: Tensor, query: Tensor, index: Tensor, words: Tensor) -> Tensor:
        """log p(word | z = j) ``[B, M, K]`` of the positions ``index``."""
        if not torch.is_grad_enabled():
            step = rows_of_a_block(memory, 4 * len(self.vocabulary[0]) * index[0].numel())
            if len(memory) > step:
                parts = zip(*(x.split(step) for x in (memory, query, index, words)))
                return torch.cat([self._log_likelihoods(*part) for part in parts])
        rows = torch.arange(len(memory), device=memory.device)[:, None, None]
        sums = memory[rows, index] + query.unsqueeze(2)
        logits = project(sums if self.is_linear else torch.tanh(sums), *self.vocabulary)
        target = words.unsqueeze(-1).expand(index.shape).flatten()
        return -F.cross_entropy(in_full(logits.flatten(0, 2)), target, reduction="none").view(index.shape)
