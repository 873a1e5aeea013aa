"""The LSTM decoder of every model of this package.

One step, with top state s_t, context c_t of the attention and attentional output o_t (Luong et al. 2015):

    s_t = LSTM(s_{t-1}, [y_{t-1}; feed_{t-1}]),   c_t = attention(s_t),
    o_t = tanh(W_o [c_t; s_t]),                   logits_t = W_v o_t

``feed`` is o (``--input-feeding output``), c (``context``) or absent (``none``). A lexicon adds to the logits what
:mod:`fairseq_attn_plugin.modules.lexicon_bias` says. What does not depend on the recurrence
is outside the loop over time: the embeddings' share of the first layer's gates, the vocabulary projection, with
``context`` also o, and with ``none`` everything (one LSTM call, one attention call, no loop).
"""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from fairseq.models import FairseqIncrementalDecoder
from fairseq.modules import AdaptiveSoftmax, FairseqDropout
from torch import Tensor, nn

from ..attention import Attention, AttentionOutput, Penalty, index_rows, map_tensors
from ..ops.deferred import linear, share
from ..ops.lstm_cell import lstm_cell
from ..ops.tanh import tanh
from .encoder import EncoderOut, uniform_
from .lexicon_bias import LexiconBias

__all__ = ["Decoded", "DecoderState", "LSTMDecoder"]


class DecoderState(NamedTuple):
    """What one decoder step hands to the next; R rows, one per hypothesis."""

    hidden: Tensor  # [R, layers, Ds]
    cell: Tensor  # [R, layers, Ds]
    feed: Optional[Tensor]  # [R, F], fed to the first layer; None without input feeding
    attention: Any  # the attention's own state, tensors of R rows, or None


class Decoded(NamedTuple):
    """What the recurrence over some steps gives."""

    features: Tensor  # [R, T, F], see LSTMDecoder.combine
    weights: Optional[Tensor]  # [R, T, N], of the attention
    scores: Optional[Tensor]  # [R, T, N], before its normaliser
    state: DecoderState  # after the last step
    penalties: Optional[Dict[str, Penalty]] = None  # of the attention, where whole targets were decoded


class LSTMDecoder(FairseqIncrementalDecoder):
    """LSTM decoder with any attention mechanism.

    Args:
        dictionary: target dictionary
        embed_tokens: target embeddings
        attention: a mechanism built for ``query_dim = hidden_size``, or None
        memory_dim: units of a source encoding
        hidden_size: units of every layer
        num_layers: number of layers, free of the encoder's
        out_embed_dim: units before the vocabulary projection; another layer is added where it differs from
            ``hidden_size``
        input_feeding: ``output``, ``context`` or ``none``
        zero_init: start from zeros instead of the encoder's last states (projected where the sizes differ)
        dropout_in: dropout of the embeddings
        dropout_out: dropout between layers and of the attentional output
        share_input_output_embed: use the embeddings as vocabulary projection
        adaptive_softmax_cutoff: cut-offs of an adaptive softmax instead of the vocabulary projection
        max_target_positions: longest target accepted

    Attributes:
        lexicon: biases the logits once it has been read; needs attention and an ordinary softmax
    """

    def __init__(
        self,
        dictionary: Any,
        embed_tokens: nn.Embedding,
        attention: Optional[Attention],
        memory_dim: int,
        hidden_size: int,
        num_layers: int = 1,
        out_embed_dim: int = 512,
        input_feeding: str = "output",
        zero_init: bool = False,
        dropout_in: float = 0.1,
        dropout_out: float = 0.1,
        share_input_output_embed: bool = False,
        adaptive_softmax_cutoff: Optional[List[int]] = None,
        max_target_positions: float = 1e5,
    ):
        super().__init__(dictionary)
        self.embed_tokens, self.attention = embed_tokens, attention
        self.hidden_size, self.num_layers = hidden_size, num_layers
        self.max_target_positions = max_target_positions
        self.input_feeding = input_feeding
        self.need_attn = True  # outside training; see make_generation_fast_
        self.dropout_in_module = FairseqDropout(dropout_in, module_name=type(self).__name__)
        self.dropout_out_module = FairseqDropout(dropout_out, module_name=type(self).__name__)
        feeds_context = input_feeding == "context" and attention is not None
        self.feed_size = 0 if input_feeding == "none" else memory_dim if feeds_context else hidden_size
        # Also the loop over time uses this module's parameters, so that every kind of input feeding has the same ones.
        self.lstm = nn.LSTM(
            embed_tokens.embedding_dim + self.feed_size,
            hidden_size,
            num_layers,
            dropout=dropout_out if num_layers > 1 else 0.0,
            batch_first=True,
        )
        uniform_(self.lstm)
        self.hidden_projection: Optional[nn.Module] = None
        self.cell_projection: Optional[nn.Module] = None
        self.zero_init = zero_init
        if not zero_init and memory_dim != hidden_size:
            self.hidden_projection = uniform_(nn.Linear(memory_dim, hidden_size))
            self.cell_projection = uniform_(nn.Linear(memory_dim, hidden_size))
        if attention is not None:
            self.output_projection = uniform_(nn.Linear(memory_dim + hidden_size, hidden_size, bias=False))
        self.additional_fc: Optional[nn.Module] = None
        if out_embed_dim != hidden_size:
            self.additional_fc = uniform_(nn.Linear(hidden_size, out_embed_dim))
        self.adaptive_softmax: Optional[nn.Module] = None
        self.share_input_output_embed = share_input_output_embed
        if adaptive_softmax_cutoff is not None:
            self.adaptive_softmax = AdaptiveSoftmax(
                len(dictionary), out_embed_dim, adaptive_softmax_cutoff, dropout=dropout_out
            )
        elif not share_input_output_embed:
            self.fc_out = uniform_(nn.Linear(out_embed_dim, len(dictionary)))
        self.lexicon = LexiconBias()

    def forward(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: Optional[Dict[str, Any]] = None,
        **unused: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """Returns logits ``[B, T, V]`` and ``{"attn": [weights]}``, weights ``[B, T, N]`` (None without attention), and
        ``"penalties"`` where the attention has such.

        With ``incremental_state`` only what follows its last step is decoded: one token, or at first the whole prefix.
        """
        decoded = self.decode(prev_output_tokens, encoder_out, incremental_state)
        logits = self.output_layer(self._output_features(decoded))
        if self.lexicon.active:
            assert self.attention is not None and decoded.weights is not None
            logits = self.lexicon(logits, decoded.weights, encoder_out["tokens"], self.attention.normalized)
        return logits, self._extra(decoded)

    def extract_features(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: Optional[Dict[str, Any]] = None,
        **unused: Any,
    ) -> Tuple[Tensor, Dict[str, Any]]:
        """As :meth:`forward`, without the vocabulary projection: ``[B, T, out_embed_dim]``.

        :meth:`output_layer` makes the logits of it, but for what a lexicon adds to them."""
        decoded = self.decode(prev_output_tokens, encoder_out, incremental_state)
        return self._output_features(decoded), self._extra(decoded)

    def _output_features(self, decoded: Decoded) -> Tensor:
        if self.additional_fc is None:
            return decoded.features
        return self.dropout_out_module(self.additional_fc(decoded.features))

    def _extra(self, decoded: Decoded) -> Dict[str, Any]:
        extra: Dict[str, Any] = {"attn": [decoded.weights if self.training or self.need_attn else None]}
        if decoded.penalties:
            extra["penalties"] = decoded.penalties
        return extra

    def decode(
        self,
        prev_output_tokens: Tensor,
        encoder_out: EncoderOut,
        incremental_state: Optional[Dict[str, Any]] = None,
    ) -> Decoded:
        """Runs the recurrence: over the whole target, or over what follows ``incremental_state``'s last step."""
        state: Optional[DecoderState] = None
        if incremental_state is not None:
            state = self.get_incremental_state(incremental_state, "state")
        first = 0
        if state is not None:
            first = prev_output_tokens.size(1) - 1
            prev_output_tokens = prev_output_tokens[:, -1:]
        if self.attention is not None and encoder_out["memory"] is None:
            source = {"source_tokens": encoder_out["tokens"]} if self.attention.needs_words else {}
            encoder_out["memory"] = self.attention.precompute(
                encoder_out["encodings"], encoder_out["pad_mask"], **source
            )
        if state is None:
            state = self._initial_state(encoder_out)

        embeddings = self.dropout_in_module(self.embed_tokens(prev_output_tokens))
        positions = torch.arange(first, first + embeddings.size(1), device=embeddings.device).expand(
            embeddings.shape[:2]
        )
        memory = encoder_out["memory"]
        words = prev_output_tokens if self.attention is not None and self.attention.needs_words else None
        if self._loop_free:
            decoded = self._decode_at_once(embeddings, memory, state, positions, words)
        else:
            recurrent = self._recurrent_weights(incremental_state)
            decoded = self._decode_stepwise(embeddings, memory, state, positions, words, recurrent)
        if incremental_state is not None:
            self.set_incremental_state(incremental_state, "state", decoded.state)  # type: ignore[arg-type]
        elif self.attention is not None and decoded.weights is not None and len(decoded.weights) == len(memory[0]):
            beyond_end = prev_output_tokens.eq(self.dictionary.pad())  # as in the target, which lies one step ahead
            decoded = decoded._replace(penalties=self.attention.penalties(memory, decoded.weights, beyond_end))
        return decoded

    def combine(self, context: Tensor, hidden: Tensor) -> Tensor:
        """A step's features from its context ``[R, T, Dh]`` and state ``[R, T, Ds]`` (see the module's text)."""
        return self.dropout_out_module(tanh(self.output_projection(torch.cat([context, hidden], dim=-1))))

    @property
    def _loop_free(self) -> bool:
        return self.feed_size == 0 and (self.attention is None or not self.attention.recurrent)

    def _initial_state(self, encoder_out: EncoderOut) -> DecoderState:
        rows = encoder_out["rows"]
        encodings = encoder_out["encodings"]
        if self.zero_init:
            hidden = cell = encodings.new_zeros(len(rows), self.num_layers, self.hidden_size)
        else:
            # Layers are matched from the top down; a deeper decoder starts its lowest layers from the encoder's lowest.
            surplus = encoder_out["hidden"].size(1) - self.num_layers
            layers = torch.arange(self.num_layers, device=rows.device).add(surplus).clamp(min=0)
            hidden = encoder_out["hidden"].index_select(1, layers).index_select(0, rows)
            cell = encoder_out["cell"].index_select(1, layers).index_select(0, rows)
            if self.hidden_projection is not None and self.cell_projection is not None:
                hidden, cell = self.hidden_projection(hidden), self.cell_projection(cell)
        feed = encodings.new_zeros(len(rows), self.feed_size) if self.feed_size else None
        attention_state = None
        if self.attention is not None:
            attention_state = index_rows(self.attention.initial_state(encoder_out["memory"]), rows)
        return DecoderState(hidden, cell, feed, attention_state)

    def _attend(
        self, query: Tensor, memory: Any, state: Any, positions: Tensor, words: Optional[Tensor]
    ) -> AttentionOutput:
        """Attends from ``query`` ``[R, T, Ds]`` to the memory of B sentences, with R = B * beam rows; ``words``
        ``[R, T]`` are the decoder's inputs, for a mechanism that needs them.

        The hypotheses of a sentence become further queries of it, so that its memory is read once for all of them.
        """
        assert self.attention is not None
        rows, steps, _ = query.shape
        sentences = memory[0].size(0)

        def by_sentence(x: Tensor) -> Tensor:
            return x.reshape(sentences, rows // sentences * x.size(1), *x.shape[2:])

        def by_row(x: Tensor) -> Tensor:
            return x.reshape(rows, steps, *x.shape[2:])

        inputs = {} if words is None else {"inputs": by_sentence(words)}
        out = self.attention.step(
            by_sentence(query), memory, map_tensors(by_sentence, state), by_sentence(positions), **inputs
        )
        new_state = map_tensors(lambda x: x.reshape(rows, 1, *x.shape[2:]), out.state)
        return AttentionOutput(by_row(out.context), by_row(out.weights), by_row(out.scores), new_state)

    def _decode_at_once(
        self, embeddings: Tensor, memory: Any, state: DecoderState, positions: Tensor, words: Optional[Tensor]
    ) -> Decoded:
        hidden, (last_hidden, last_cell) = self.lstm(
            embeddings, (state.hidden.transpose(0, 1).contiguous(), state.cell.transpose(0, 1).contiguous())
        )
        state = DecoderState(last_hidden.transpose(0, 1), last_cell.transpose(0, 1), None, None)
        if self.attention is None:
            return Decoded(self.dropout_out_module(hidden), None, None, state)
        attended = self._attend(hidden, memory, None, positions, words)
        return Decoded(self.combine(attended.context, hidden), attended.weights, attended.scores, state)

    def _decode_stepwise(
        self,
        embeddings: Tensor,
        memory: Any,
        state: DecoderState,
        positions: Tensor,
        words: Optional[Tensor],
        recurrent: List[Tensor],
    ) -> Decoded:
        steps = embeddings.size(1)
        base = self._gates_from_embeddings(embeddings)
        hidden, cell = list(state.hidden.unbind(1)), list(state.cell.unbind(1))
        feed, attention_state = state.feed, state.attention
        w_output = share(self.output_projection.weight) if self.attention is not None else None
        feeds_output = self.input_feeding == "output" or self.attention is None
        dropped = self.num_layers if feeds_output else self.num_layers - 1  # layers with dropout at every step
        dropout = _StepDropout(self.dropout_out_module, embeddings, dropped, self.hidden_size)
        no_bias = embeddings.new_zeros(1, 1).expand(embeddings.size(0), self.hidden_size)

        queries, contexts, outputs, all_weights, all_scores = [], [], [], [], []
        for t in range(steps):
            x = feed
            for layer in range(self.num_layers):
                read = hidden[layer] if x is None else torch.cat([x, hidden[layer]], dim=1)
                gates = linear(read, recurrent[layer], base[layer][t])
                hidden[layer], cell[layer] = lstm_cell(gates, cell[layer])
                if layer + 1 < self.num_layers:
                    x = dropout(hidden[layer], layer, t)
            output = query = hidden[-1]
            if self.attention is not None:
                where, inputs = positions[:, t : t + 1], None if words is None else words[:, t : t + 1]
                attended = self._attend(query.unsqueeze(1), memory, attention_state, where, inputs)
                attention_state = attended.state
                context = attended.context.squeeze(1)
                all_weights.append(attended.weights)
                all_scores.append(attended.scores)
                if feeds_output:
                    assert w_output is not None
                    output = tanh(linear(torch.cat([context, query], dim=1), w_output, no_bias))
                else:
                    queries.append(query)
                    contexts.append(context)
                    if self.feed_size:
                        feed = context
            if feeds_output:
                output = dropout(output, self.num_layers - 1, t)
                outputs.append(output)
                if self.feed_size:
                    feed = output
        if feeds_output:
            result = torch.stack(outputs, dim=1)
        else:
            result = self.combine(torch.stack(contexts, dim=1), torch.stack(queries, dim=1))
        new_state = DecoderState(torch.stack(hidden, dim=1), torch.stack(cell, dim=1), feed, attention_state)
        if not all_weights:
            return Decoded(result, None, None, new_state)
        return Decoded(result, torch.cat(all_weights, dim=1), torch.cat(all_scores, dim=1), new_state)

    def _recurrent_weights(self, incremental_state: Optional[Dict[str, Any]]) -> List[Tensor]:
        """Each layer's weight for ``[input; hidden]``, without the embeddings' part in the first layer.

        Joined once: in training for all steps, in incremental decoding for all calls with the same state.
        """
        weights: Optional[List[Tensor]] = None
        if incremental_state is not None:
            weights = self.get_incremental_state(incremental_state, "recurrent")  # type: ignore[assignment]
        if weights is None:
            weights = []
            for layer in range(self.num_layers):
                w_input = getattr(self.lstm, f"weight_ih_l{layer}")[
                    :, 0 if layer else self.embed_tokens.embedding_dim :
                ]
                weights.append(share(torch.cat([w_input, getattr(self.lstm, f"weight_hh_l{layer}")], dim=1)))
            if incremental_state is not None:
                self.set_incremental_state(incremental_state, "recurrent", weights)  # type: ignore[arg-type]
        return weights

    def _gates_from_embeddings(self, embeddings: Tensor) -> List[List[Tensor]]:
        """What is added to the gates, ``[layer][t]`` ``[R, 4 Ds]``: the biases, and in the first layer the embeddings'
        share, for all steps in one product."""
        rows, steps, embed_dim = embeddings.shape
        base: List[List[Tensor]] = []
        for layer in range(self.num_layers):
            bias = getattr(self.lstm, f"bias_ih_l{layer}") + getattr(self.lstm, f"bias_hh_l{layer}")
            if layer == 0:
                gates = F.linear(embeddings.transpose(0, 1), self.lstm.weight_ih_l0[:, :embed_dim], bias)
                base.append(list(gates.unbind(0)))
            else:
                base.append([bias.expand(rows, -1)] * steps)
        return base

    def output_layer(self, features: Tensor, **unused: Any) -> Tensor:
        """Projects features to the vocabulary (an adaptive softmax does that in its criterion)."""
        if self.adaptive_softmax is not None:
            return features
        if self.share_input_output_embed:
            return F.linear(features, self.embed_tokens.weight)
        return self.fc_out(features)

    def reorder_incremental_state(self, incremental_state: Dict[str, Any], new_order: Tensor) -> None:
        """Takes over the states of the hypotheses that survive a step of beam search."""
        state: Optional[DecoderState] = self.get_incremental_state(incremental_state, "state")
        if state is not None:
            self.set_incremental_state(incremental_state, "state", index_rows(state, new_order))  # type: ignore[arg-type]

    def make_generation_fast_(self, need_attn: bool = False, **unused: Any) -> None:
        """fairseq's word that generation begins: the weights are returned only where alignments are asked for."""
        self.need_attn = need_attn

    def max_positions(self) -> float:
        return self.max_target_positions


class _StepDropout:
    """Dropout inside the loop over time, its masks drawn in one call: ``masks`` ``[layers, T, R, Ds]``."""

    def __init__(self, module: FairseqDropout, like: Tensor, layers: int, size: int):
        self.masks: Optional[Tuple[Tuple[Tensor, ...], ...]] = None
        if layers and module.p > 0 and (module.training or module.apply_during_inference):
            rows, steps, _ = like.shape
            masks = F.dropout(like.new_ones(layers, steps, rows, size), module.p)
            self.masks = tuple(layer.unbind(0) for layer in masks.unbind(0))

    def __call__(self, x: Tensor, layer: int, step: int) -> Tensor:
        return x if self.masks is None else x * self.masks[layer][step]
