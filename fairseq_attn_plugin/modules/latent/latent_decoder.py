"""The decoder of models with a latent alignment (Deng et al. 2018, "Latent Alignment and Variational Attention").

The attention is the prior p(z_t = j) of the alignment z_t of step t. The recurrence is fed the prior's mean context c_t
= sum_j p(j) h_j, never a sampled one. The states s_t therefore do not depend on any z, and

    o_tj = tanh(W_h h_j + W_s s_t + b),   p(y_t | z_t = j) = softmax(W_v o_tj + b_v),
    p(y_t) = sum_j p(j) p(y_t | z_t = j)

With ``--output-layer linear`` o_tj = [h_j; s_t]. Sums over all j then cost little
(:mod:`fairseq_attn_plugin.ops.likelihoods.separable`). Dropout is of features of the encodings, the same ones in a
whole sentence, and of those of the states.

The decoder runs the recurrence first; :mod:`fairseq_attn_plugin.ops.likelihoods.alignment_blocks` then treats all pairs
(t, j).
"""

import math
from typing import Any, Dict, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ...ops.deferred import Linear, project
from ...ops.likelihoods.mixture_log_probs import mixture_log_probs
from ...ops.likelihoods.separable import EXPONENTIALS_BYTES, shared_exponentials
from ...ops.precision import in_full
from ..decoder import LSTMDecoder
from ..decoder_state import Decoded, Progress
from ..encoders.source_encoder import EncoderOut
from ..rnn import uniform_
from ..source_memory import SourceMemory
from .latent_alignments import LatentAlignments, top_positions


class LatentDecoder(LSTMDecoder):
    """LSTM decoder whose prediction is the marginal over alignments.

    ``forward`` returns log p(y_t) ``[B, T, V]`` instead of logits (their softmax is p itself) and the prior as
    attention weights. Arguments are those of :class:`LSTMDecoder`; o has ``out_embed_dim`` units.

    Attributes:
        topk: predict from the ``topk`` most probable positions, renormalised; None: from all
        prediction: ``marginal``, ``soft`` (p(y_t | c_t), ordinary attention), or ``auto``: as the objective that
            trained the model, which the criterion notes in ``trained_soft``
    """

    trained_soft: Tensor
    sums_losses = False  # type: ignore[assignment]  # the losses of latent alignments have objectives of their own
    returns_log_probs = True  # type: ignore[assignment]  # those of the mixture over alignments

    def __init__(self, *args: Any, out_embed_dim: int, **options: Any):
        # o may have any width, because it is not fed back: no layer is needed before the vocabulary projection
        super().__init__(*args, **{**options, "out_embed_dim": options["hidden_size"]})
        self.topk: Optional[int] = None
        self.prediction = "auto"
        if self.output_projection is not None:
            self.output_projection = uniform_(Linear(options["memory_dim"] + self.hidden_size, out_embed_dim))
            if not self.share_input_output_embed:
                self.fc_out = uniform_(Linear(out_embed_dim, len(self.dictionary)))
        # a number, so that checkpoints can be averaged
        self.register_buffer("trained_soft", torch.zeros(()))

    def combine(self, context: Tensor, hidden: Tensor) -> Tensor:
        """The state itself: o_t depends on the alignment."""
        return hidden

    def words_of(self, decoded: Decoded, source: SourceMemory, encoder_out: EncoderOut) -> Tensor:
        return self.predict(self._alignments(decoded, source, encoder_out))

    def alignments(
        self, prev_output_tokens: Tensor, encoder_out: EncoderOut, incremental_state: Optional[Dict[str, Any]] = None
    ) -> LatentAlignments:
        """Runs the recurrence and returns what p(z) and p(y | z) are computed from.

        In beam search T counts the hypotheses of a sentence: ``query`` is ``[B, beam, D]``, and the targets have
        ``B * beam`` rows (see :meth:`predict`).
        """
        decoded, source = self.decode(prev_output_tokens, encoder_out, incremental_state)
        return self._alignments(decoded, source, encoder_out)

    def _alignments(self, decoded: Decoded, source: SourceMemory, encoder_out: EncoderOut) -> LatentAlignments:
        memory, exponentials = source.projected, source.exponentials
        assert memory is not None and decoded.weights is not None and decoded.scores is not None
        rows = (self.of_states(decoded.features), decoded.scores, decoded.weights)
        query, scores, weights = (x.reshape(memory.size(0), -1, x.size(-1)) for x in rows)
        log_prior, pad_mask = self.log_prior(weights, scores, encoder_out["pad_mask"])
        weight, bias = self.vocabulary
        if self.training:
            # Data-parallel wrappers search the graphs of the outputs for used parameters. A parameter that is an output
            # itself has no graph.
            weight, bias = weight.view_as(weight), None if bias is None else bias.view_as(bias)
        keep = self.dropout_out_module.mask(query, query.shape)
        if self.is_linear and keep is not None:
            of_memory = self.dropout_out_module.mask(memory, memory[:, :1].shape)
            memory, query, keep, exponentials = memory * of_memory, query * keep, None, None
        return LatentAlignments(
            memory,
            query,
            weight,
            bias,
            keep,
            pad_mask,
            decoded.weights,
            log_prior,
            scores,
            penalties=decoded.penalties,
            split=self.feature_size - self.hidden_size if self.is_linear else 0,
            exponentials=None if exponentials is None else exponentials.values,
        )

    def predict_with(self, hidden: Tensor, weights: Tensor, encoder_out: EncoderOut) -> Tensor:
        """As :meth:`LSTMDecoder.predict_with`; the weights, whose sum is one, are the prior."""
        scores = weights.clamp(min=torch.finfo(weights.dtype).tiny).log()
        state: Any = None
        source = SourceMemory(encoder_out["rows"], None, self.of_encodings(encoder_out["encodings"]))
        return self.predict(self._alignments(Decoded(hidden, weights, scores, state), source, encoder_out))

    def log_prior(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor]) -> Tuple[Tensor, Optional[Tensor]]:
        """log p(z_t = j) ``[B, T, N]`` of the attention's weights and scores, and the padding among the alignments."""
        assert self.attention is not None
        log_prior = self.attention.log_weights(weights, scores, pad_mask)
        if pad_mask is None:
            return log_prior, None
        # All encodings of a source without words are zero: its alignments are equally probable.
        empty = pad_mask.all(dim=1)
        log_prior = log_prior.masked_fill(empty[:, None, None], -math.log(pad_mask.size(1)))
        return log_prior, pad_mask & ~empty.unsqueeze(1)

    def remember(self, encoder_out: EncoderOut) -> SourceMemory:
        return super().remember(encoder_out)._replace(projected=self.of_encodings(encoder_out["encodings"]))

    def start(self, encoder_out: EncoderOut, searches: bool) -> Progress:
        """With the exponentials of the positions, where logits are separable and several steps read them."""
        progress = super().start(encoder_out, searches)
        encodings, (weight, _) = encoder_out["encodings"], self.vocabulary
        if not self.is_linear or not (self.revises or searches and not self.predicts_soft):
            return progress
        if searches and encodings[..., 0].numel() * len(weight) * weight.element_size() > EXPONENTIALS_BYTES:
            return progress  # which a search would keep
        exponentials = shared_exponentials(in_full(self.logits_of(encodings)))
        return progress._replace(memory=progress.memory._replace(exponentials=exponentials))

    def logits_of(self, encodings: Tensor) -> Tensor:
        """The positions' part of separable logits, ``[B, N, Dh]`` to ``[B, N, V]``."""
        return project(encodings, self.vocabulary[0][:, : int(encodings.size(-1))])

    def of_encodings(self, encodings: Tensor) -> Tensor:
        """The encodings' share of o before its tanh, ``[..., Dh]`` to ``[..., D]``."""
        if self.output_projection is None:
            return F.pad(encodings, (0, self.hidden_size))
        return project(encodings, self.output_projection.weight[:, : -self.hidden_size])

    def of_states(self, states: Tensor) -> Tensor:
        """The states' share, ``[..., Ds]`` to ``[..., D]``."""
        if self.output_projection is None:
            return F.pad(states, (self.feature_size - self.hidden_size, 0))
        return project(states, self.output_projection.weight[:, -self.hidden_size :], self.output_projection.bias)

    @property
    def predicts_soft(self) -> bool:
        """Whether the prediction is p(y_t | c_t) instead of the marginal."""
        return bool(self.trained_soft > 0.5) if self.prediction == "auto" else self.prediction == "soft"

    def predict(self, latent: LatentAlignments) -> Tensor:
        """log p(y_t) of all words of the vocabulary, ``[R, T, V]`` for R rows of the decoder."""
        if self.predicts_soft:
            nothing = latent.query.new_zeros(latent.query.shape[:2], dtype=torch.long)
            words = latent.relaxed_words(nothing, -1, latent.log_prior.exp())
            log_probs = mixture_log_probs(words, latent.log_prior.new_zeros(*nothing.shape, 1))
        elif self.topk is None:
            log_probs = self.mixed(latent, latent.log_prior)
        else:
            log_probs = self.mixed(latent, *top_positions(latent.log_prior, self.topk))
        return log_probs.view(*latent.prior.shape[:2], -1)

    def mixed(self, latent: LatentAlignments, log_weights: Tensor, index: Optional[Tensor] = None) -> Tensor:
        """log sum_j w_tj p(v | z_t = j) of all words v ``[B, T, V]``, over all positions or those of ``index``; with
        ``log_weights`` ``[B, T, N]``, or as many as there are positions."""
        nothing = latent.query.new_zeros(latent.query.shape[:2], dtype=torch.long)
        return mixture_log_probs(latent.words(nothing, -1, index), log_weights)
