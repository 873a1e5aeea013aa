"""The LSTM decoder of all translation models of this package.

:mod:`fairseq_attn_plugin.modules.recurrent_decoder` computes o_t. This module makes logits of it:

    logits_t = W_v o_t + b_v,  or with another layer before the vocabulary  W_v (W_a o_t + b_a) + b_v

With ``--output-layer linear`` these are W_v [c_t; s_t] + b_v.

A lexicon adds a bias to the logits (:mod:`fairseq_attn_plugin.modules.lexicon_bias`), and source words may be copied
(:mod:`fairseq_attn_plugin.modules.copying`).

Shapes: B sentences, R rows (R = B in training, B times the beam in a search), N source positions, T steps, V words.
"""

from typing import Any, ClassVar, Dict, List, Optional, Tuple, Union

import torch
from fairseq.modules import AdaptiveSoftmax
from torch import Tensor, nn

from ..attention import Attention
from ..ops.deferred import Linear, project
from ..ops.likelihoods.vocabulary_loss import Targets, VocabularyLoss, vocabulary_loss
from ..ops.precision import fixed_weights
from .copying import Copying
from .decoder_state import Decoded
from .encoders.source_encoder import EncoderOut
from .lexicon_bias import LexiconBias
from .recurrent_decoder import RecurrentDecoder
from .rnn import uniform_
from .source_memory import SourceMemory


class LSTMDecoder(RecurrentDecoder):
    """LSTM decoder with any attention mechanism.

    Args:
        dictionary: target dictionary
        embed_tokens: target embeddings
        attention: a mechanism built for ``query_dim = hidden_size``, or None
        memory_dim: units of a source encoding
        hidden_size: units of every layer
        out_embed_dim: units before the vocabulary projection; a layer is added where they differ from ``hidden_size``;
            unused with ``output_layer="linear"``
        dropout_out: dropout between layers and of the attentional output
        share_input_output_embed: use the embeddings as vocabulary projection
        adaptive_softmax_cutoff: cut-offs of an adaptive softmax instead of the vocabulary projection
        max_target_positions: longest target accepted
        options: further arguments of :class:`~fairseq_attn_plugin.modules.recurrent_decoder.RecurrentDecoder`

    Attributes:
        lexicon: biases the logits once a lexicon is read; needs attention and an ordinary softmax
        copying: mixes the words with copies of source words, or None; needs the same
        need_attn: whether weights are returned outside training
        predicts_stepwise: whether :meth:`predict_with` is the prediction of each step, given its state and weights
    """

    predicts_stepwise: ClassVar[bool] = True

    def __init__(
        self,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        attention: Optional[Attention],
        memory_dim: int,
        hidden_size: int,
        out_embed_dim: int = 512,
        dropout_out: float = 0.1,
        share_input_output_embed: bool = False,
        adaptive_softmax_cutoff: Optional[List[int]] = None,
        max_target_positions: float = 1e5,
        **options: Any,
    ):
        super().__init__(
            dictionary, embed_tokens, attention, memory_dim, hidden_size, dropout_out=dropout_out, **options
        )
        self.max_target_positions = max_target_positions
        self.need_attn = True
        self.additional_fc: Optional[nn.Module] = None
        if self.is_linear:
            out_embed_dim = self.feature_size
        elif out_embed_dim != hidden_size:
            self.additional_fc = uniform_(Linear(hidden_size, out_embed_dim))
        self.adaptive_softmax: Optional[nn.Module] = None
        self.share_input_output_embed = share_input_output_embed
        if adaptive_softmax_cutoff is not None:
            self.adaptive_softmax = AdaptiveSoftmax(
                len(dictionary), out_embed_dim, adaptive_softmax_cutoff, dropout=dropout_out
            )
        elif not share_input_output_embed:
            self.fc_out = uniform_(Linear(out_embed_dim, len(dictionary)))
        self.lexicon = LexiconBias()
        self.copying: Optional[Copying] = None

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: Optional[Dict[str, Any]] = None,
        targets: Optional[Targets] = None,
        **unused: Any,
    ) -> Tuple[Union[Tensor, VocabularyLoss], Dict[str, Any]]:
        """Decodes a batch.

        Args:
            prev_output_tokens: ``[R, T]``, the target shifted by one
            encoder_out: of the encoder
            incremental_state: with it only the steps after its last one are decoded: one token, or at first the prefix
            targets: words ``[R, T]`` whose loss is wanted instead of logits, if :attr:`sums_losses`: fairseq's
                cross_entropy asks for it (:mod:`fairseq_attn_plugin.patches.vocabulary_losses`)

        Returns:
            logits ``[R, T, V]`` (log p where words are copied), or the loss of ``targets``, and a dictionary: ``attn``
            is ``[weights]`` with weights ``[R, T, N]`` or None without attention; ``penalties`` has the attention's
            penalties by name, where it has any
        """
        decoded, source = self.decode(prev_output_tokens, encoder_out, incremental_state)
        if targets is not None and self.sums_losses:
            features = self._output_features(decoded.features)
            if self.copying is None:
                return vocabulary_loss(features, *self.vocabulary, targets), self._extra(decoded)
            assert decoded.weights is not None
            loss = self.copying.loss(features, self.vocabulary, decoded.weights, encoder_out["tokens"], targets)
            return loss, self._extra(decoded)
        return self.words_of(decoded, source, encoder_out), self._extra(decoded)

    def words_of(self, decoded: Decoded, source: SourceMemory, encoder_out: EncoderOut) -> Tensor:
        """What :meth:`forward` returns as words, from the result of :meth:`decode`."""
        normalized = self.attention is None or self.attention.normalized
        features = self._output_features(decoded.features)
        return self._predict(features, decoded.weights, encoder_out["tokens"], normalized)

    def log_probs(self, context: Tensor, hidden: Tensor, weights: Tensor, tokens: Tensor) -> Tensor:
        """log p(y) ``[B, R, V]`` of R steps with any contexts and states, apart from the recurrence.

        Args:
            context: ``[B, R, Dh]``
            hidden: ``[B, R, Ds]``, states s
            weights: ``[B, R, N]``, attention that a lexicon and copies read; a row sums to one
            tokens: ``[B, N]``, the source
        """
        logits = self._predict(self._output_features(self.combine(context, hidden)), weights, tokens, True)
        return self.get_normalized_probs((logits, None), log_probs=True)

    def predict_with(self, hidden: Tensor, weights: Tensor, encoder_out: EncoderOut) -> Tensor:
        """What :meth:`forward` would return for each step, had the attention of that step alone other weights.

        Args:
            hidden: ``[B, T, Ds]``, the states s_t, from which the attention was asked
            weights: ``[B, T, N]``, zero on padding; differentiable
            encoder_out: of the encoder

        Returns:
            ``[B, T, V]``, logits or what the decoder returns in their place
        """
        assert self.attention is not None
        features = self._output_features(self.combine(torch.bmm(weights, encoder_out["encodings"]), hidden))
        return self._predict(features, weights, encoder_out["tokens"], self.attention.normalized)

    def _predict(self, features: Tensor, weights: Optional[Tensor], tokens: Tensor, normalized: bool) -> Tensor:
        """Logits, or log p where words are copied, with the lexicon."""
        logits = self.output_layer(features)
        if self.lexicon.active:
            assert weights is not None
            fixed = fixed_weights()
            logits = self.lexicon(logits, weights, tokens, normalized, None if fixed is None else fixed.words)
        if self.copying is not None:
            assert weights is not None
            logits = self.copying(logits, features, weights, tokens)
        return logits

    def _output_features(self, features: Tensor) -> Tensor:
        return features if self.additional_fc is None else self.dropout_out_module(self.additional_fc(features))

    def _extra(self, decoded: Decoded) -> Dict[str, Any]:
        extra: Dict[str, Any] = {"attn": [decoded.weights if self.training or self.need_attn else None]}
        if decoded.penalties:
            extra["penalties"] = decoded.penalties
        return extra

    def output_layer(self, features: Tensor, **unused: Any) -> Tensor:
        """Projects features to the vocabulary (an adaptive softmax does that in its criterion)."""
        if self.adaptive_softmax is not None:
            return features
        return project(features, *self.vocabulary)

    @property
    def sums_losses(self) -> bool:
        """Whether :meth:`forward` returns losses: with an ordinary softmax and without a lexicon."""
        return self.adaptive_softmax is None and not self.lexicon.active

    @property
    def returns_log_probs(self) -> bool:
        """Whether the words of :meth:`forward` are log-probabilities, and no logits."""
        return self.copying is not None

    @property
    def vocabulary(self) -> Tuple[Tensor, Optional[Tensor]]:
        """Weight ``[V, D]`` and bias ``[V]`` of the projection to the vocabulary, or in a search to its shortlist; not
        of an adaptive softmax."""
        fixed = fixed_weights()
        if fixed is not None and fixed.words is not None:
            return fixed.vocabulary
        if self.share_input_output_embed:
            return self.embed_tokens.weight, None
        return self.fc_out.weight, self.fc_out.bias

    def make_generation_fast_(self, need_attn: bool = False, **unused: Any) -> None:
        """Called by fairseq before generation; ``need_attn`` says whether the weights are wanted."""
        self.need_attn = need_attn

    def max_positions(self) -> float:
        return self.max_target_positions
