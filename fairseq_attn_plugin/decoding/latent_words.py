"""The next words of a model with a latent alignment, for inference: packed products, no autograd.

From the state s of a row and the prior p(j), as in :mod:`fairseq_attn_plugin.modules.latent_decoder`:

    o_j = tanh(W_h h_j + W_s s + b),     p(v) = sum_j p(j) softmax(W_v o_j + b_v)[v]

over all positions j or the K most probable ones; or softmax(W_v o + b_v) with o from the mean of W_h h_j. With
``--output-layer linear`` o_j = [h_j; s]; the exponentials of the part of h_j are then the same in all steps, and the
mixture is a product of matrices (:mod:`fairseq_attn_plugin.ops.separable`).

Shapes: B sentences, R rows (R / B for each sentence), N source positions, K alignments, D units of o.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Tuple, Union

import torch
from torch import Tensor, nn

from ..attention import AttentionOutput
from ..modules.latent_alignments import top_positions
from ..modules.latent_decoder import LatentDecoder
from ..ops.alignment_blocks import rows_of_a_block
from ..ops.mixture_log_probs import log_mixture
from ..ops.separable import EXPONENTIALS_BYTES, exponentials_of
from ..ops.tanh import tanh_
from ..ops.vocabulary_blocks import LOG2_E, exponentiate, safe_sums
from .products import Product, pack

__all__ = ["LatentMemory", "LatentWords", "PartProducts", "Projection", "StateHead"]


class LatentMemory(NamedTuple):
    """What the words depend on besides the state."""

    projected: Tensor  # [B, N, D], of LatentDecoder.of_encodings
    pad_mask: Optional[Tensor]  # [B, N]
    encodings: Optional[Tensor] = None  # [B, N, Dh], where the context of the best positions is fed
    exponentials: Optional[Tensor] = None  # [B, N, V], of the positions' part of separable logits


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
        self.feeds = decoder.feed_size > 0

    def forward(self, context: Optional[Tensor], hidden: Tensor, states: List[Tensor]) -> Tuple[Tensor, Tensor]:
        if self.feeds and context is not None:
            states = [context] + states
        return hidden, torch.cat(states, 1)


class LatentWords:
    """The prediction of a decoder.

    Args:
        decoder: its attributes ``topk``, ``prediction`` and ``trained_soft`` are read now
        precision: of the products, see :mod:`fairseq_attn_plugin.decoding.products`

    Attributes:
        projection: to the vocabulary, or those of the two parts of separable logits; of logits times log2 e where
            alignments are mixed, because a processor computes 2^x several times faster than e^x
        mixes: whether several alignments are mixed; the result is then normalised
    """

    def __init__(self, decoder: LatentDecoder, precision: str):
        self.attention, self.topk, self.mixes = decoder.attention, decoder.topk, not decoder.predicts_soft
        self.log_prior = decoder.log_prior
        projection, self.query, self.activate = decoder.output_projection, decoder.of_states, tanh_
        if projection is None:
            self.activate = torch.nn.Identity()
        else:
            self.query = pack(projection.weight[:, -decoder.hidden_size :], projection.bias, precision)
        (weight, bias), scale = decoder.vocabulary, LOG2_E if self.mixes else 1.0
        bias = None if bias is None else bias * scale
        self.projection: Projection
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
        return memory._replace(exponentials=exponentials_of(_of_positions(memory.projected, projection)).values)

    def __call__(self, hidden: Tensor, attended: AttentionOutput, memory: LatentMemory, projection: Projection) -> Any:
        """Logits, or log p where alignments are mixed: ``[R, V]``.

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
            return _separable(hidden, shares, memory, projection)
        query = self.query(hidden).view(*log_prior.shape[:2], -1)
        if not self.mixes:
            mean = query.baddbmm_(log_prior.exp().to(query.dtype), memory.projected)
            return projection(self.activate(mean).flatten(0, 1))
        if self.topk is None:
            states = memory.projected.unsqueeze(1) + query.unsqueeze(2)
        else:
            log_prior, index = top_positions(log_prior, self.topk)
            size = memory.projected.size(-1)
            picked = memory.projected.gather(1, index.flatten(1).unsqueeze(-1).expand(-1, -1, size))
            states = picked.view(*index.shape, size).add_(query.unsqueeze(2))
        features, weights = self.activate(states).flatten(0, 1), log_prior.exp().flatten(0, 1)
        return _mixtures(features, weights, projection)


def _of_positions(encodings: Tensor, projection: PartProducts) -> Tensor:
    """The positions' part of the logits, times log2 e: ``[B, N, D]`` to ``[B, N, V]``."""
    encodings = encodings[..., : projection.positions.weight.size(1)]
    return projection.positions(encodings.flatten(0, 1)).view(*encodings.shape[:2], -1)


def _separable(hidden: Tensor, weights: Tensor, memory: LatentMemory, projection: PartProducts) -> Tensor:
    """log sum_j w_j p(v | j): ``[R, H]`` and ``[B, R / B, N]`` to ``[R, V]``."""
    logits = projection.steps(hidden).view(*weights.shape[:2], -1)
    logits.sub_(logits.amax(-1, keepdim=True))
    if memory.exponentials is not None:
        found = _by_products(logits, memory.exponentials, weights)
        if found is not None:
            return found.flatten(0, 1)
    rows = []
    for steps, encodings, shares in zip(logits.split(1), memory.projected.split(1), weights.split(1)):
        found = _by_products(steps, exponentials_of(_of_positions(encodings, projection)).values, shares)
        if found is None:
            rows.append(_of_pairs(steps[0], _of_positions(encodings, projection)[0], shares[0]))
        else:
            rows.append(found[0])
    return torch.cat(rows)


def _by_products(logits: Tensor, exponentials: Tensor, weights: Tensor) -> Optional[Tensor]:
    """The same from the steps' part of the logits ``[B, M, V]``, whose maxima are 0, and the exponentials of the
    positions' part ``[B, N, V]``; None if words that count may have been lost."""
    norm = torch.bmm(logits.exp2(), exponentials.transpose(1, 2)).masked_fill_(weights.eq(0), 1)
    if not safe_sums(norm):
        return None
    mixed = torch.bmm(weights.to(norm.dtype).div_(norm), exponentials)
    # Probabilities below about 1e-20 may come out too small.
    return mixed.clamp_(min=torch.finfo(mixed.dtype).tiny).log2_().add_(logits).div_(LOG2_E)


def _of_pairs(steps: Tensor, positions: Tensor, weights: Tensor) -> Tensor:
    """The same for one sentence from logits ``[M, V]`` and ``[N, V]``, pair by pair."""
    at_once = rows_of_a_block(steps, steps.element_size() * positions.numel())
    rows = []
    for some, shares in zip(steps.split(at_once), weights.split(at_once)):
        values = (some.unsqueeze(1) + positions).flatten(0, 1)
        rows.append(log_mixture(shares, values, exponentiate(values, values.amax(1, keepdim=True))))
    return torch.cat(rows)


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
