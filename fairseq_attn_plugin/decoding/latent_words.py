"""The next words of a model with a latent alignment, for inference: packed products, no autograd.

From the state s of a row and the prior p(j), as in :mod:`fairseq_attn_plugin.modules.latent_decoder`:

    o_j = tanh(W_h h_j + W_s s + b),     p(v) = sum_j p(j) softmax(W_v o_j + b_v)[v]

over all positions j or the K most probable ones; or softmax(W_v o + b_v) with o from the mean of W_h h_j. With
``--output-layer linear`` o_j = [h_j; s]; the exponentials of the part of h_j are then the same in all steps, and the
mixture is a product of matrices (:mod:`fairseq_attn_plugin.ops.separable`). Posterior attention then needs no more
products with the vocabulary: with Z_j, the sums of a step's exponentials, and b_jv, the part of h_j in the logits,

    p(j | y) = p(j) e^(b_jy) / Z_j, normalised over j

Shapes: B sentences, R rows (R / B for each sentence), N source positions, K alignments, D units of o.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from ..attention import AttentionOutput
from ..attention.normalizers import LOG_ZERO
from ..modules.latent_alignments import top_positions
from ..modules.latent_decoder import LatentDecoder
from ..ops.alignment_blocks import rows_of_a_block
from ..ops.mixture_log_probs import log_mixture
from ..ops.separable import EXPONENTIALS_BYTES, Part, exponentials_of
from ..ops.tanh import tanh_
from ..ops.vocabulary_blocks import LOG2_E, exponentiate, safe_sums
from .products import Product, pack

__all__ = ["LatentMemory", "LatentWords", "PartProducts", "Projection", "StateHead"]


class LatentMemory(NamedTuple):
    """What the words depend on besides the state."""

    projected: Tensor  # [B, N, D], of LatentDecoder.of_encodings
    pad_mask: Optional[Tensor]  # [B, N]
    encodings: Optional[Tensor] = None  # [B, N, Dh], where the context of the best positions is fed
    exponentials: Optional[Part] = None  # [B, N, V], of the positions' part of separable logits


class PartProducts(NamedTuple):
    """The projections of the two parts of separable logits."""

    steps: Product
    positions: Product

    def subset(self, outputs: Tensor, rows: int) -> PartProducts:
        """As :meth:`fairseq_attn_plugin.decoding.products.Product.subset`."""
        return PartProducts(*(product.subset(outputs, rows) for product in self))


Projection = Union[Product, PartProducts]


class StateHead(nn.Module):
    """As :class:`fairseq_attn_plugin.decoding.step_modules.Head`; the features are the state itself."""

    def __init__(self, decoder: LatentDecoder):
        super().__init__()
        self.feeds = decoder.feed_size

    def forward(self, context: Optional[Tensor], hidden: Tensor, recurrent: Tensor) -> Tensor:
        if self.feeds > 0 and context is not None:
            recurrent.narrow(1, 0, self.feeds).copy_(context)
        return hidden


class LatentWords:
    """The prediction of a decoder.

    Args:
        decoder: its attributes ``topk``, ``prediction`` and ``trained_soft`` are read now
        precision: of the products, see :mod:`fairseq_attn_plugin.decoding.products`

    Attributes:
        projection: to the vocabulary, or those of the two parts of separable logits; of logits times log2 e where
            alignments are mixed, because a processor computes 2^x several times faster than e^x
        mixes: whether several alignments are mixed; the result is then normalised
        revises: whether the recurrence is fed the posterior
    """

    def __init__(self, decoder: LatentDecoder, precision: str):
        self.topk, self.mixes = decoder.topk, not decoder.predicts_soft
        self.attention, self.posterior_topk = decoder.attention, getattr(decoder, "posterior_topk", None)
        self.log_prior, self.revises = decoder.log_prior, decoder.revises
        projection, self.query, self.activate = decoder.output_projection, decoder.of_states, tanh_
        if projection is None:
            self.activate = torch.nn.Identity()
        else:
            self.query = pack(projection.weight[:, -decoder.hidden_size :], projection.bias, precision)
        (weight, bias), scale = decoder.vocabulary, LOG2_E if self.mixes else 1.0
        bias = None if bias is None else bias * scale
        self.projection: Projection
        self.of_words: Optional[Tensor] = None  # the encodings' part of the vocabulary matrix
        if decoder.revises:
            self.of_words = weight[:, : -decoder.hidden_size].detach().clone()
        if decoder.is_linear and self.mixes:
            parts = (weight * scale).split([weight.size(1) - decoder.hidden_size, decoder.hidden_size], dim=1)
            self.projection = PartProducts(pack(parts[1], bias, precision), pack(parts[0], None, precision))
        else:
            self.projection = pack(weight * scale, bias, precision)

    def remember(self, memory: LatentMemory, projection: Projection) -> LatentMemory:
        """The memory with all that the words of ``projection`` need of it."""
        if isinstance(projection, Product):
            return memory
        rows, size = memory.projected[..., 0].numel(), len(projection.positions.weight)
        if rows * size * memory.projected.element_size() > EXPONENTIALS_BYTES:
            return memory
        return memory._replace(exponentials=exponentials_of(_of_positions(memory.projected, projection)))

    def __call__(
        self, hidden: Tensor, attended: AttentionOutput, memory: LatentMemory, projection: Projection
    ) -> Tuple[Tensor, Optional[Tensor]]:
        """Logits, or log p where alignments are mixed: ``[R, V]``; and where :attr:`revises`, what :meth:`revise`
        reads of the step, ``[R, N]``.

        Args:
            hidden: ``[R, H]``, s
            attended: of the rows, ``[R, 1, ...]``
            memory: of B sentences, of :meth:`remember`
            projection: :attr:`projection`, or some of its words
        """
        by_sentence = len(memory.projected), -1, memory.projected.size(1)
        weights, scores = attended.weights.reshape(by_sentence), attended.scores.reshape(by_sentence)
        log_prior, _ = self.log_prior(weights, scores, memory.pad_mask)
        if not isinstance(projection, Product):
            shares = log_prior.exp()
            if self.topk is not None:
                log_top, index = top_positions(log_prior, self.topk)
                shares = torch.zeros_like(log_prior).scatter_(-1, index, log_top.exp())
            counts = log_prior > LOG_ZERO / 2 if self.revises else shares > 0
            log_probs, log_norm = _separable(hidden, shares, counts, memory, projection)
            return log_probs, self._kept(log_prior, log_norm) if self.revises else None
        query = self.query(hidden).view(*log_prior.shape[:2], -1)
        if not self.mixes:
            mean = query.baddbmm_(log_prior.exp().to(query.dtype), memory.projected)
            return projection(self.activate(mean).flatten(0, 1)), None
        if self.topk is None:
            states = memory.projected.unsqueeze(1) + query.unsqueeze(2)
        else:
            log_prior, index = top_positions(log_prior, self.topk)
            size = memory.projected.size(-1)
            picked = memory.projected.gather(1, index.flatten(1).unsqueeze(-1).expand(-1, -1, size))
            states = picked.view(*index.shape, size).add_(query.unsqueeze(2))
        features, weights = self.activate(states).flatten(0, 1), log_prior.exp().flatten(0, 1)
        return _mixtures(features, weights, projection), None

    def _kept(self, log_prior: Tensor, log_norm: Tensor) -> Tensor:
        """What a step keeps for :meth:`revise`: log p(j) - log Z_j ``[R, N]``, up to a constant of each row."""
        found = log_prior - log_norm / LOG2_E
        if self.posterior_topk is not None and self.posterior_topk < found.size(-1):
            index = log_prior.topk(self.posterior_topk, dim=-1).indices
            found = torch.full_like(found, LOG_ZERO).scatter_(-1, index, found.gather(-1, index))
        return found.flatten(0, 1)

    def revise(self, words: Tensor, kept: Tensor, memory: LatentMemory, state: Any) -> Tuple[Tensor, Any]:
        """What the next step is fed, and the attention's state before it, now that the words are known.

        Args:
            words: ``[R]``
            kept: ``[R, N]``, of the step that predicted them
            memory: of B sentences
            state: of the attention, before that step
        """
        assert self.attention is not None and self.of_words is not None
        encodings = memory.projected[..., : self.of_words.size(1)]
        rows = self.of_words.index_select(0, words).view(len(encodings), -1, encodings.size(-1))
        log_posterior = torch.baddbmm(kept.view(*rows.shape[:2], -1), rows, encodings.transpose(1, 2))
        weights = log_posterior.softmax(-1)
        context = torch.bmm(weights, encodings).flatten(0, 1)
        return context, self.attention.advance(state, weights.view(len(words), 1, -1))


def _of_positions(encodings: Tensor, projection: PartProducts) -> Tensor:
    """The positions' part of the logits, times log2 e: ``[B, N, D]`` to ``[B, N, V]``."""
    encodings = encodings[..., : projection.positions.weight.size(1)]
    return projection.positions(encodings.flatten(0, 1)).view(*encodings.shape[:2], -1)


def _separable(
    hidden: Tensor, weights: Tensor, counts: Tensor, memory: LatentMemory, projection: PartProducts
) -> Tuple[Tensor, Tensor]:
    """log sum_j w_j p(v | j), and log2 Z_j up to a constant of each row.

    Args:
        hidden: ``[R, H]``
        weights: ``[B, R / B, N]``
        counts: the same, True where Z_j is wanted, and where w_j > 0
        memory, projection: see :class:`LatentWords`

    Returns:
        ``[R, V]`` and ``[B, R / B, N]``
    """
    logits = projection.steps(hidden).view(*weights.shape[:2], -1)
    logits.sub_(logits.amax(-1, keepdim=True))
    if memory.exponentials is not None:
        found = _by_products(logits, memory.exponentials, weights, counts)
        if found is not None:
            return found[0].flatten(0, 1), found[1]
    rows = []
    for steps, encodings, shares, wanted in zip(*(x.split(1) for x in (logits, memory.projected, weights, counts))):
        exponentials = exponentials_of(_of_positions(encodings, projection))
        found = _by_products(steps, exponentials, shares, wanted)
        rows.append(_of_pairs(steps, _of_positions(encodings, projection)[0], shares) if found is None else found)
    log_probs, log_norm = (torch.cat(parts) for parts in zip(*rows))
    return log_probs.flatten(0, 1), log_norm


def _by_products(
    logits: Tensor, exponentials: Part, weights: Tensor, counts: Tensor
) -> Optional[Tuple[Tensor, Tensor]]:
    """The same ``[B, M, V]`` and ``[B, M, N]`` from the steps' part of the logits ``[B, M, V]``, whose maxima are 0,
    and the exponentials of the positions' part; None if words that count may have been lost."""
    norm = torch.bmm(logits.exp2(), exponentials.values.transpose(1, 2)).masked_fill_(~counts, 1)
    if not safe_sums(norm):
        return None
    mixed = torch.bmm(weights.to(norm.dtype) / norm, exponentials.values)
    # Probabilities below about 1e-20 may come out too small.
    log_probs = mixed.clamp_(min=torch.finfo(mixed.dtype).tiny).log2_().add_(logits).div_(LOG2_E)
    return log_probs, norm.log2_().add_(exponentials.peak.unsqueeze(1))


def _of_pairs(steps: Tensor, positions: Tensor, weights: Tensor) -> Tuple[Tensor, Tensor]:
    """The same for one sentence from logits ``[1, M, V]`` and ``[N, V]``, pair by pair."""
    at_once = rows_of_a_block(steps[0], steps.element_size() * positions.numel())
    rows, norms = [], []
    for some, shares in zip(steps[0].split(at_once), weights[0].split(at_once)):
        values = (some.unsqueeze(1) + positions).flatten(0, 1)
        peak = values.amax(1, keepdim=True)
        norm = exponentiate(values, peak)
        rows.append(log_mixture(shares, values, norm))
        norms.append((norm.log2() + peak).view_as(shares))
    return torch.cat(rows).unsqueeze(0), torch.cat(norms).unsqueeze(0)


def _mixtures(features: Tensor, weights: Tensor, projection: Product) -> Tensor:
    """log sum_k w_k softmax(z_k): ``[R, K, D]`` and ``[R, K]`` to ``[R, V]``; the projection gives z log2 e."""
    at_once = rows_of_a_block(features, features.element_size() * weights.size(1) * len(projection.weight))
    return torch.cat([_mixture(x, w, projection) for x, w in zip(features.split(at_once), weights.split(at_once))])


def _mixture(features: Tensor, weights: Tensor, projection: Product) -> Tensor:
    flat = features.flatten(0, 1)
    values = projection(flat)
    norm = exponentiate(values, None)
    if not safe_sums(norm):
        values = projection(flat)
        norm = exponentiate(values, values.amax(1, keepdim=True))
    return log_mixture(weights, values, norm)
