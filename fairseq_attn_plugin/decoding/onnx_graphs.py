"""The two graphs of an exported translation model, as modules of plain operations.

    EncoderGraph   source [B, N] -> memory (once per sentence), state before the first step [B, 1, ...]
    StepGraph      words [B, K], position, memory, state [B, K, ...] -> log p [B, K, V], weights [B, K, N], new state

B sentences have K hypotheses each. The memory is that of the attention mechanism, with the pad mask and what else a
step needs of the source; its tensors and those of the state have names, since a graph has no tuples. Sources are padded
on the right.
"""

from __future__ import annotations

from typing import Any, Dict, Iterator, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from ..attention import map_tensors
from ..attention.normalizers import LOG_ZERO
from ..modules.latent_decoder import LatentDecoder
from ..modules.recurrence import LayerStates
from ..modules.stock_encoder import StockEncoder
from .onnx_layers import layers_graph

__all__ = ["EncoderGraph", "Memory", "State", "StepGraph", "named_tensors"]


class Memory(NamedTuple):
    """What a step reads of the source."""

    attention: Any  # of the mechanism, or None
    pad_mask: Optional[Tensor] = None  # [B, N], for models with a latent alignment
    # of a model with a latent alignment: LatentDecoder.of_encodings [B, N, D]; where its logits are separable, their
    # exponentials [B, N, V] in float64, each row with a factor of its own
    projected: Optional[Tensor] = None
    tokens: Optional[Tensor] = None  # [B, N], for a lexicon


class State(NamedTuple):
    """What a step hands to the next; in the graphs ``[B, K, ...]``."""

    layers: LayerStates
    feed: Optional[Tensor]  # [B, K, F]
    attention: Any


def named_tensors(tensors: Any, prefix: str) -> Dict[str, Tensor]:
    """The tensors of a memory or state, by names such as ``memory.attention.keys``."""
    if tensors is None:
        return {}
    if isinstance(tensors, Tensor):
        return {prefix: tensors}
    names = getattr(tensors, "_fields", range(len(tensors)))
    found: Dict[str, Tensor] = {}
    for name, part in zip(names, tensors):
        found.update(named_tensors(part, f"{prefix}.{name}"))
    return found


def _rebuilt(template: Any, tensors: Iterator[Tensor]) -> Any:
    """The memory or state that ``tensors`` are the tensors of, in the order of :func:`named_tensors`."""
    if template is None or isinstance(template, Tensor):
        return map_tensors(lambda _: next(tensors), template)
    parts = [_rebuilt(part, tensors) for part in template]
    return type(template)(*parts) if hasattr(template, "_fields") else tuple(parts)


def _linear(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """x W^T + b of ``x`` ``[..., D]``.

    As a product of two dimensions without bias, then the bias: onnxruntime joins both in float32, and quantises such a
    product correctly where its weight has other uses.
    """
    y = x.flatten(0, -2) @ weight.t()
    return (y if bias is None else y + bias).view(*x.shape[:-1], -1)


class EncoderGraph(nn.Module):
    """The encoder, what the decoder computes of the source alone, and the decoder's first state.

    Args:
        model: of the ``attn_lstm`` family, in evaluation mode
    """

    def __init__(self, model: nn.Module):
        super().__init__()
        self.encoder, self.decoder = model.encoder, model.decoder
        attention = self.decoder.attention
        self.attention = None if attention is None else attention.for_export()

    def forward(self, source: Tensor) -> Tuple[Tensor, ...]:
        """The tensors of memory and state, in the order of :func:`named_tensors`."""
        memory, state = self.start(source)
        return (*named_tensors(memory, "").values(), *named_tensors(state, "").values())

    def start(self, source: Tensor) -> Tuple[Memory, State]:
        """Memory and first state of ``source`` ``[B, N]``. While it is recorded the longest sentence must come first;
        the graph then takes any order."""
        pad_mask = source.eq(self.encoder.padding_idx)
        encodings, hidden, cell = self._encode(source, pad_mask)
        layers = self._first_state(hidden, self.decoder.hidden_projection), ()
        if self.decoder.kind == "lstm":
            layers = layers[0], self._first_state(cell, self.decoder.cell_projection)
        # without attention nothing reads this, but the recorder fails at a sequence that nothing unpacks
        decoder, memory = self.decoder, Memory(None, projected=encodings[:, :1, :1])
        attention_state = None
        if self.attention is not None:
            words = {"source_tokens": source} if self.attention.needs_words else {}
            memory = Memory(self.attention.precompute(encodings, pad_mask, **words))
            attention_state = self.attention.initial_state(memory.attention)
        if isinstance(decoder, LatentDecoder):
            projected = decoder.of_encodings(encodings)
            if _is_separable(decoder):
                split = decoder.feature_size - decoder.hidden_size
                projected = _exponentials(_linear(projected[:, :, :split], decoder.vocabulary[0][:, :split]))
            memory = memory._replace(pad_mask=pad_mask, projected=projected)
        if decoder.lexicon.active:
            memory = memory._replace(tokens=source)
        feed = encodings.new_zeros(source.size(0), 1, decoder.feed_size) if decoder.feed_size else None
        return memory, State(LayerStates(*layers), feed, attention_state)

    def _encode(self, source: Tensor, pad_mask: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
        """Encodings ``[B, N, Dh]``, hidden and cell states ``[L, B, Dh]``; where there is no cell, the hidden ones."""
        if isinstance(self.encoder, StockEncoder):
            out = self.encoder(source)
            return out["encodings"], out["hidden"].transpose(0, 1), out["hidden"].transpose(0, 1)
        packed = pack_padded_sequence(self.encoder.embed_tokens(source), (~pad_mask).sum(1), batch_first=True)
        outputs, last = self.encoder.rnn(packed)
        encodings, _ = pad_packed_sequence(outputs, batch_first=True, total_length=source.size(1))
        directions = 2 if self.encoder.bidirectional else 1
        states = []
        for state in last if isinstance(last, tuple) else (last, last):
            by_layer = state.split(directions)
            states.append(torch.stack([torch.cat(layer.unbind(0), dim=-1) for layer in by_layer]))
        return encodings, states[0], states[1]

    def _first_state(self, last: Tensor, projection: Any) -> Tuple[Tensor, ...]:
        """The first state ``[B, 1, Ds]`` of every decoder layer, from the encoder's ``[L, B, Dh]``."""
        decoder = self.decoder
        if decoder.zero_init:
            return (last.new_zeros(last.size(1), 1, decoder.hidden_size),) * decoder.num_layers
        states = []
        for layer in decoder.sources_of_layers(self.encoder.num_layers):
            state = last[layer]
            states.append(
                (state if projection is None else _linear(state, projection.weight, projection.bias)).unsqueeze(1)
            )
        return tuple(states)


class StepGraph(nn.Module):
    """One step of the decoder for K hypotheses of B sentences.

    Args:
        encoder: the graph that comes before
        memory, state: a result of :meth:`EncoderGraph.start`, for the structure of the tuples
    """

    def __init__(self, encoder: EncoderGraph, memory: Memory, state: State):
        super().__init__()
        self.decoder, self.attention = encoder.decoder, encoder.attention
        self.template = (memory, state)
        self.layers = layers_graph(self.decoder)

    def forward(self, words: Tensor, position: Tensor, *tensors: Tensor) -> Tuple[Tensor, ...]:
        """log p ``[B, K, V]``, the weights ``[B, K, N]`` where there is attention, and the tensors of the new state.

        Args:
            words: ``[B, K]``, the last word of every hypothesis
            position: ``[1]``, the number of the step, from 0
            tensors: of memory and state, in the order of :func:`named_tensors`
        """
        memory, state = _rebuilt(self.template, iter(tensors))
        x = self.decoder.embed_tokens(words)
        layers, top = self.layers(x if state.feed is None else torch.cat([x, state.feed], dim=-1), state.layers)
        context = weights = scores = attention_state = None
        if self.attention is not None:
            inputs = {"inputs": words} if self.attention.needs_words else {}
            positions = position.unsqueeze(0).expand_as(words)
            context, weights, scores, attention_state = self.attention.step(
                top, memory.attention, state.attention, positions, **inputs
            )
        if isinstance(self.decoder, LatentDecoder):
            log_probs, output = self._mixed(top, weights, scores, memory), None
        else:
            output = top if context is None else self._combined(context, top)
            log_probs = self._predicted(output, weights, memory)
        feeds_context = self.attention is not None and self.decoder.input_feeding == "context"
        feed = None if state.feed is None else context if feeds_context else output
        new = named_tensors(State(layers, feed, attention_state), "").values()
        return (log_probs, *([] if weights is None else [weights]), *new)

    def _combined(self, context: Tensor, top: Tensor) -> Tensor:
        """o = tanh(W_o [c; s]), or [c; s]."""
        both, projection = torch.cat([context, top], dim=-1), self.decoder.output_projection
        return self._activated(both if projection is None else _linear(both, projection.weight))

    def _activated(self, x: Tensor) -> Tensor:
        return x if self.decoder.is_linear else torch.tanh(x)

    def _predicted(self, output: Tensor, weights: Optional[Tensor], memory: Memory) -> Tensor:
        decoder: Any = self.decoder
        if decoder.additional_fc is not None:
            output = _linear(output, decoder.additional_fc.weight, decoder.additional_fc.bias)
        logits = _linear(output, *decoder.vocabulary)
        if decoder.lexicon.active:
            logits = decoder.lexicon(logits, weights, memory.tokens, decoder.attention.normalized)
        return logits.log_softmax(-1)

    def _mixed(self, top: Tensor, weights: Any, scores: Any, memory: Memory) -> Tensor:
        """log sum_j p(j) p(y | z = j), or log p(y | c) where the model predicts from the mean context."""
        decoder: Any = self.decoder
        log_prior = decoder.attention.log_weights(weights, scores, memory.pad_mask)
        projected: Any = memory.projected
        index = None
        if decoder.topk is not None and not decoder.predicts_soft:
            # as many further positions without weight: a source may have fewer than are asked for
            padded = F.pad(log_prior, (0, decoder.topk), value=LOG_ZERO)
            log_prior, index = padded.topk(decoder.topk, dim=-1)
            log_prior = log_prior.log_softmax(-1).clamp(min=LOG_ZERO)
        shares = log_prior.exp()
        if _is_separable(decoder):
            if index is not None:
                shares = torch.zeros_like(padded).scatter(-1, index, shares)[:, :, : projected.size(1)]
            return self._separable(top, shares, projected)
        query = decoder.of_states(top)
        if decoder.predicts_soft:
            features = self._activated(query + shares @ projected)
            return _linear(features, *decoder.vocabulary).log_softmax(-1)
        by_position = projected.unsqueeze(1) + query.unsqueeze(2)
        if index is not None:
            by_position = F.pad(by_position, (0, 0, 0, decoder.topk))
            by_position = by_position.gather(2, index.unsqueeze(-1).expand(-1, -1, -1, by_position.size(-1)))
        probabilities = _linear(self._activated(by_position), *decoder.vocabulary).softmax(-1)
        mixed = (shares.unsqueeze(2) @ probabilities).squeeze(2)
        return mixed.clamp(min=torch.finfo(mixed.dtype).tiny).log()

    def _separable(self, top: Tensor, shares: Tensor, positions: Tensor) -> Tensor:
        """The mixture by products with the positions' exponentials, see :mod:`fairseq_attn_plugin.ops.separable`."""
        weight, bias = self.decoder.vocabulary
        steps = _exponentials(_linear(top, weight[:, -self.decoder.hidden_size :], bias))
        tiny = torch.finfo(steps.dtype).tiny
        norm = (steps @ positions.transpose(1, 2)).clamp(min=tiny)
        mixed = steps * ((shares.double() / norm) @ positions)
        return mixed.clamp(min=tiny).log().float()


def _is_separable(decoder: LatentDecoder) -> bool:
    return decoder.is_linear and not decoder.predicts_soft


def _exponentials(logits: Tensor) -> Tensor:
    """exp(z - max z) in float64, whose sums need no second way: those of float32 may lose all words that count."""
    return (logits - logits.amax(-1, keepdim=True)).double().exp()
