"""The fast stepper: decoder steps of inference with packed products and few calls.

It computes what :mod:`fairseq_attn_plugin.modules.recurrent_decoder` computes, one step at a time. All that a row hands
to the next step, but for the attention's own state, is one vector, so that a search selects rows by one call.

Shapes: B sentences, R rows (R / B for each sentence), N source positions, L layers, H units, F units that are fed.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import torch
from fairseq.modules import FairseqDropout
from torch import Tensor

from ..attention import index_rows
from ..attention.scores import DotScore, GeneralScore, ScaledDotScore
from ..attention.soft import SoftAttention
from ..modules.decoder import LSTMDecoder
from ..modules.encoder import LSTMEncoder
from ..modules.latent_decoder import LatentDecoder
from ..modules.posterior_decoder import PosteriorDecoder
from ..modules.source_memory import Change, SentenceAttention
from ..modules.stock_encoder import StockEncoder
from .latent_words import LatentMemory, LatentWords, Projection, StateHead
from .packed_encoder import PackedEncoder
from .packed_gru import GRULayers
from .products import PACKED_ROWS, Product, pack
from .shortlist import Shortlist
from .start import Start
from .step_modules import Head, Layers, SoftStep, WordGates, compiled
from .stepper import StepOutput, is_ours

__all__ = ["PackedState", "PackedStepper", "is_packable"]

MULTIPLE = 128  # words of a packed shortlist, because oneDNN compiles a kernel for each number of outputs


class PackedState(NamedTuple):
    """The state of a :class:`PackedStepper`."""

    recurrent: Tensor  # [R, F + 2 L H], of step_modules.Layers, or [R, F + L H], of packed_gru.GRULayers
    attention: Any  # the attention's own state, tensors [R, 1, ...], or None
    memory: Any  # the attention's memory of B sentences, or None
    tokens: Tensor  # [B, N], the source
    projection: Projection  # to the vocabulary, or to the batch's shortlist
    vocabulary: Optional[Tensor] = None  # [K], the shortlist
    latent: Optional[LatentMemory] = None  # of B sentences, for a latent alignment
    kept: Optional[Tensor] = None  # [R, N], from which the posterior of the last alignment follows


class SoftMemory(NamedTuple):
    """What :func:`~fairseq_attn_plugin.decoding.step_modules.attend` reads of B sentences."""

    keys: Tensor  # [B, N, D]
    values: Tensor  # [B, N, D']
    bias: Optional[Tensor]  # [B, 1, N]
    empty: Optional[Tensor]  # [B, 1, 1]


def _soft_memory(keys: Tensor, values: Tensor, pad_mask: Optional[Tensor]) -> SoftMemory:
    """From the padding ``[B, N]``, True on padding; None without padding."""
    if pad_mask is None:
        return SoftMemory(keys, values, None, None)
    bias = keys.new_zeros(pad_mask.shape).masked_fill_(pad_mask, -math.inf).unsqueeze(1)
    empty = pad_mask.all(1)
    return SoftMemory(keys, values, bias, empty[:, None, None] if bool(empty.any()) else None)


def is_packable(model: Any) -> bool:
    """Whether a :class:`PackedStepper` computes what the model computes."""
    if not is_ours(model) or type(model.encoder) not in (LSTMEncoder, StockEncoder):
        return False
    decoder = model.decoder
    if type(decoder) not in (LSTMDecoder, LatentDecoder, PosteriorDecoder):
        return False
    if getattr(decoder, "alignment", "prior") != "prior":
        return False
    if decoder.revises and (decoder.predicts_soft or not decoder.is_linear):
        return False  # a step would compute the words of all alignments for the posterior alone
    weight = decoder.embed_tokens.weight
    if weight.device.type != "cpu":
        return False  # a GPU has nothing to pack
    if weight.dtype not in (torch.float32, torch.float64):
        return False  # tanh as lstm_cell_ computes it is too coarse in half precision
    dropped = any(isinstance(part, FairseqDropout) and part.apply_during_inference for part in model.modules())
    return decoder.adaptive_softmax is None and not dropped


def _scale(decoder: LSTMDecoder) -> Optional[float]:
    """The factor of the scores of soft attention by products with keys; None of every other attention."""
    attention = decoder.attention
    if type(attention) is not SoftAttention or attention.biases is not None or attention.config.max_normalize:
        return None
    scales = {DotScore: 1.0, GeneralScore: 1.0, ScaledDotScore: 1 / math.sqrt(decoder.hidden_size)}
    return scales.get(type(attention.score)) if attention.config.normalizer == "softmax" else None


class PackedStepper:
    """A translation model of this package with packed weights.

    The weights are copied: a later change of the model has no effect.

    Args:
        model: a model with :func:`is_packable`, in evaluation mode
        precision: of the products, see :mod:`fairseq_attn_plugin.decoding.products`
        temperature: divides the logits
        shortlist: chooses the words of each batch
    """

    def __init__(
        self,
        model: Any,
        precision: str = "float32",
        temperature: float = 1.0,
        shortlist: Optional[Shortlist] = None,
    ):
        decoder = model.decoder
        self.model, self.decoder, self.attention = model, decoder, decoder.attention
        self.temperature, self.shortlist = temperature, shortlist
        self.encode: Callable[[Tensor], Any] = model.encoder
        if isinstance(model.encoder, LSTMEncoder):
            self.encode = PackedEncoder(model.encoder, precision)
        self.words = WordGates(decoder, precision)
        self.latent = LatentWords(decoder, precision) if isinstance(decoder, LatentDecoder) else None
        layers = (Layers if decoder.kind == "lstm" else GRULayers)(decoder, precision)
        scale = _scale(decoder) if self.latent is None else None
        projects = scale is not None and decoder.input_feeding != "context" and not decoder.is_linear
        head = Head(decoder, precision, projects) if self.latent is None else StateHead(decoder)
        self.start = compiled(Start(decoder, model.encoder.num_layers, precision, scale is not None, projects))
        self.soft = None if scale is None else compiled(SoftStep(layers, head, scale))
        self.layers: Any = compiled(layers) if self.soft is None else layers
        self.head: Any = compiled(head) if self.soft is None else head
        self.projection: Projection
        if self.latent is None:
            weight, bias = decoder.vocabulary
            self.projection = pack(weight, bias, precision)
        else:
            self.projection = self.latent.projection

    @torch.inference_mode()
    def begin(self, net_input: Dict[str, Any], prefix: Optional[Tensor] = None) -> PackedState:
        encoder_out = self.encode(net_input["src_tokens"])
        encodings, tokens, memory, latent = encoder_out["encodings"], encoder_out["tokens"], None, None
        hidden, cell = encoder_out["hidden"], encoder_out["cell"]
        recurrent, keys, values = self.start(encodings, hidden, hidden if cell is None else cell)
        if self.soft is not None:
            memory = _soft_memory(keys, values, encoder_out["pad_mask"])
        elif self.attention is not None:
            remembered = self.decoder.remember(encoder_out)
            memory = remembered.attention
            if self.latent is not None:
                fed = encodings if self.decoder.feeds_top else None
                latent = LatentMemory(remembered.projected, encoder_out["pad_mask"], fed)
        attention = None if self.attention is None else self.attention.initial_state(memory)
        projection, words = self.projection, None
        if self.shortlist is not None:
            words = self.shortlist.words(tokens, prefix, MULTIPLE if len(tokens) >= PACKED_ROWS else 1)
            projection = projection.subset(words, rows=len(tokens))
        if self.latent is not None and latent is not None:
            latent = self.latent.remember(latent, projection)
        return PackedState(recurrent, attention, memory, tokens, projection, words, latent)

    @torch.inference_mode()
    def step(self, tokens: Tensor, state: PackedState, step: int) -> Tuple[StepOutput, PackedState]:
        if state.kept is not None:
            state = self._revised(tokens, state)
        base, attention, weights, kept = self.words(tokens), state.attention, None, None
        if self.soft is not None:
            features, weights = self.soft(base, state.recurrent, *state.memory)
        else:
            hidden = self.layers(base, state.recurrent)
            context = None
            if self.attention is not None:
                attend = SentenceAttention(self.attention, state.memory, len(state.tokens), self._restriction(state))
                words = tokens.unsqueeze(1) if self.attention.needs_words else None
                attended = attend(hidden.unsqueeze(1), attention, tokens.new_full((len(tokens), 1), step), words)
                context, weights, attention = attended.context[:, 0], attended.weights[:, 0], attended.state
            features = self.head(context, hidden, state.recurrent)
        if self.latent is None:
            assert isinstance(state.projection, Product)
            logits = state.projection(features)
        else:
            assert state.latent is not None
            logits, kept = self.latent(features, attended, state.latent, state.projection)
            attention = state.attention if self.latent.revises else attention
        if self.decoder.lexicon.active:
            assert weights is not None
            logits = logits + self._lexicon_bias(weights, state)
        copying = self.decoder.copying
        if copying is not None:
            assert weights is not None
            logits = copying(logits.unsqueeze(1), features.unsqueeze(1), weights.unsqueeze(1), state.tokens).squeeze(1)
        if self.temperature != 1.0:
            logits = logits / self.temperature
        new_state = state._replace(attention=attention, kept=kept)
        mixed = copying is not None if self.latent is None else self.latent.mixes
        normalized = mixed and self.temperature == 1.0
        return StepOutput(logits.float(), normalized, weights if self.decoder.need_attn else None), new_state

    def _revised(self, tokens: Tensor, state: PackedState) -> PackedState:
        """The state that is fed the posterior of the last alignment, now that its word is known."""
        assert self.latent is not None and state.latent is not None and state.kept is not None
        context, attention = self.latent.revise(tokens, state.kept, state.latent, state.attention)
        recurrent = torch.cat([context, state.recurrent[:, context.size(1) :]], 1)
        return state._replace(recurrent=recurrent, attention=attention)

    def _restriction(self, state: PackedState) -> Optional[Change]:
        """What keeps to the most probable alignments, where the model feeds their context."""
        if state.latent is None or state.latent.encodings is None:
            return None
        encodings = state.latent.encodings
        return lambda attended: self.decoder.restricted(attended, encodings)

    def _lexicon_bias(self, weights: Tensor, state: PackedState) -> Tensor:
        words = self.decoder.embed_tokens.num_embeddings  # fairseq-generate adds words to the dictionary while it runs
        zeros = weights.new_zeros(len(weights), 1, words)
        bias = self.decoder.lexicon(zeros, weights.unsqueeze(1), state.tokens, self.attention.normalized).squeeze(1)
        return bias if state.vocabulary is None else bias.index_select(1, state.vocabulary)

    def select(self, state: PackedState, rows: Tensor, sentences: Optional[Tensor] = None) -> PackedState:
        recurrent, attention, kept = index_rows((state.recurrent, state.attention, state.kept), rows)
        state = state._replace(recurrent=recurrent, attention=attention, kept=kept)
        if sentences is None:
            return state
        memory, tokens, latent = index_rows((state.memory, state.tokens, state.latent), sentences)
        return state._replace(memory=memory, tokens=tokens, latent=latent)
