"""Attention density matrices (Charalampous and Chatzis, "Quantum Statistics-Inspired Neural Attention").

With projected encodings k_j = W_m h_j the N x N matrix Psi has the ordinary scores alpha_j on its diagonal (eq. 6)
and, off it, scores of *pairs* of source positions,

    mqt   sigma_jk = w_s tanh(k_j + k_k) . s             (eq. 10 and 11, w_s a scalar)
    aqt   sigma_jk = w . tanh(tanh(k_j + k_k) + s)       (eq. 10 and 12, w a vector)

and the weights are a = normalise_k( mean_j Psi_jk ) (eq. 9), the mean over the sentence's own length n. Only the
column sums of Psi are ever needed, and those do not need the N^2 pairs at every decoder step (``--adm-pairing
pooled``, the default):

* mqt is linear in s: sum_{j != k} sigma_jk = w_s g_k . s with g_k = sum_{j != k} tanh(k_j + k_k), once per
  sentence. Exact.
* aqt: x -> tanh(x + s) is smooth on [-1, 1], where L_jk = tanh(k_j + k_k) lies, so it is interpolated at M
  Chebyshev nodes x_m: sum_{j != k} sigma_jk = sum_m (w * tanh(x_m + s)) . G_mk with G_mk = sum_{j != k} l_m(L_jk),
  once per sentence. The error falls by a factor of about 3.4 per node (nearest pole at i pi/2) and reaches
  float32's rounding at M = 12, the default of ``--adm-nodes``.

``--adm-pairing direct`` computes all pairs at every step, O(T N^2 D). It serves tests and very short sources.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from ..errors import OptionError
from ..ops.chebyshev import chebyshev_nodes
from ..ops.deferred import matmul_transposed, share
from ..ops.pair_pooling import pooled_basis, pooled_tanh
from ..ops.tanh import by_sigmoid
from ..options import option
from .base import AttentionConfig
from .biases import BiasMemory
from .registry import register_attention
from .scored import ScoredAttention
from .scores import GeneralScore, projection

__all__ = ["ADMConfig", "ADMMemory", "AdditiveDensityMatrix", "MultiplicativeDensityMatrix"]


@dataclass
class ADMConfig(AttentionConfig):
    prefix: ClassVar[str] = "adm"

    pairing: str = option(
        "pooled", "pooled: pair terms summed once per sentence; direct: all pairs at every step (default: pooled)"
    )
    nodes: int = option(12, "aqt, pooled: Chebyshev nodes (default: 12, exact to float32's rounding)")
    chunk_size: int = option(0, "source positions whose pairs are held at a time; 0 chooses by the cache (default: 0)")


class ADMMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    diagonal: Optional[Tensor]  # [B, N, Dk], keys of the diagonal score; None where they are part of `pairs`
    pairs: Tensor  # pooled: the means over pairs [B, N, F]; direct: L_jk, [B, N, N, D]
    length: Tensor  # [B, 1, 1], number of words n
    pad_mask: Optional[Tensor]  # [B, N]
    bias: Optional[BiasMemory] = None


class DensityMatrixAttention(ScoredAttention):
    """The part common to mqt and aqt: the projected encodings, the diagonal and the mean."""

    Config = ADMConfig
    takes = ScoredAttention.takes | {"documents"}
    scores_are_logits = True
    config: ADMConfig

    def __init__(self, query_dim: int, memory_dim: int, config: ADMConfig):
        super().__init__(query_dim, memory_dim, config)
        if config.pairing not in ("pooled", "direct"):
            raise OptionError(f"--adm-pairing {config.pairing}: unknown pairing; choose from direct, pooled")
        if not 1 <= config.nodes <= 64:
            raise OptionError(
                f"--adm-nodes {config.nodes}: must lie between 1 and 64; 12 is exact to float32's rounding"
            )
        if config.chunk_size < 0:
            raise OptionError(
                f"--adm-chunk-size {config.chunk_size}: must be 0 (chosen by the cache) or a number of positions"
            )
        # `general` scores against the same keys W_m h_j; any other score needs the projection in addition to its
        # own parameters.
        self.projection = None if self._general else projection(memory_dim, query_dim, bias=False)

    @property
    def _general(self) -> bool:
        return isinstance(self.score, GeneralScore)

    @property
    def _direct(self) -> bool:
        return self.config.pairing == "direct"

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> ADMMemory:
        diagonal = self.score.precompute(encodings)
        keys = diagonal if self.projection is None else self.projection(encodings)
        if pad_mask is None:
            length = keys.new_full((keys.size(0), 1, 1), keys.size(1))
        else:
            # A row that is all padding gets length 1: its weights are zero whatever is divided.
            length = (~pad_mask).sum(1).clamp(min=1).to(keys.dtype)[:, None, None]
        if self._direct:
            pairs = torch.tanh(keys.unsqueeze(2) + keys.unsqueeze(1))
            return ADMMemory(share(encodings), share(diagonal), pairs, length, pad_mask)
        folded, pairs = self._pool(keys, pad_mask)
        # Divided here, not at the end: sums over many positions could leave float16's range.
        return ADMMemory(share(encodings), None if folded else share(diagonal), share(pairs / length), length, pad_mask)

    def _score(self, query: Tensor, memory: ADMMemory) -> Tensor:
        if self._direct:
            scores = self._direct_sums(query, memory.pairs, _absent_pairs(memory)) / memory.length
        else:
            scores = matmul_transposed(self._features(query), memory.pairs)
        if memory.diagonal is not None:
            scores = scores + self.score(query, memory.diagonal) / memory.length
        return scores

    def _pool(self, keys: Tensor, pad_mask: Optional[Tensor]) -> Tuple[bool, Tensor]:
        """The query-independent factor of the column sums, ``[B, N, F]``, and whether the diagonal is in it already."""
        raise NotImplementedError

    def _features(self, query: Tensor) -> Tensor:
        """The query's factor of the pooled column sums: ``[B, T, Ds]`` to ``[B, T, F]``."""
        raise NotImplementedError

    def _direct_sums(self, query: Tensor, pairs: Tensor, absent: Tensor) -> Tensor:
        """sum_{j != k} sigma_jk from all L_jk ``[B, N, N, D]`` where not ``absent`` ``[B, 1, N, N]``: ``[B, T, N]``."""
        raise NotImplementedError


def _absent_pairs(memory: ADMMemory) -> Tensor:
    """Pairs (j, k) that do not count, ``[B, 1, N, N]``: j = k, and j or k on padding."""
    size = memory.encodings.size(1)
    absent = torch.eye(size, dtype=torch.bool, device=memory.encodings.device)[None, None]
    if memory.pad_mask is not None:
        absent = absent | memory.pad_mask[:, None, :, None] | memory.pad_mask[:, None, None, :]
    return absent


@register_attention("mqt")
class MultiplicativeDensityMatrix(DensityMatrixAttention):
    default_score = "general"

    def __init__(self, query_dim: int, memory_dim: int, config: ADMConfig):
        super().__init__(query_dim, memory_dim, config)
        self.pair_weight = nn.Parameter(torch.ones(()))

    def _pool(self, keys: Tensor, pad_mask: Optional[Tensor]) -> Tuple[bool, Tensor]:
        pairs = self.pair_weight * pooled_tanh(keys, pad_mask, self.config.chunk_size)
        # general's alpha_k = k_k . s has the same form, so that a step costs what `general` alone costs.
        return self._general, keys + pairs if self._general else pairs

    def _features(self, query: Tensor) -> Tensor:
        return query

    def _direct_sums(self, query: Tensor, pairs: Tensor, absent: Tensor) -> Tensor:
        return self.pair_weight * torch.einsum("btd,bjkd->btjk", query, pairs).masked_fill(absent, 0).sum(2)


@register_attention("aqt")
class AdditiveDensityMatrix(DensityMatrixAttention):
    default_score = "additive"

    def __init__(self, query_dim: int, memory_dim: int, config: ADMConfig):
        super().__init__(query_dim, memory_dim, config)
        self.pair_vector = nn.Parameter(torch.empty(query_dim).uniform_(-0.1, 0.1))

    def _pool(self, keys: Tensor, pad_mask: Optional[Tensor]) -> Tuple[bool, Tensor]:
        return False, pooled_basis(keys, self.config.nodes, pad_mask, self.config.chunk_size).flatten(2)

    def _features(self, query: Tensor) -> Tensor:
        nodes = chebyshev_nodes(self.config.nodes, device=query.device, dtype=query.dtype)
        if by_sigmoid(query):  # w tanh(x) = 2 w sigmoid(2x) - w
            gates = torch.add(2 * nodes[:, None], query.unsqueeze(-2), alpha=2).sigmoid_()
            return torch.addcmul(-self.pair_vector, gates, 2 * self.pair_vector).flatten(-2)
        return (torch.tanh(nodes[:, None] + query.unsqueeze(-2)) * self.pair_vector).flatten(-2)

    def _direct_sums(self, query: Tensor, pairs: Tensor, absent: Tensor) -> Tensor:
        values = torch.tanh(pairs.unsqueeze(1) + query[:, :, None, None])
        return torch.einsum("btjkd,d->btjk", values, self.pair_vector).masked_fill(absent, 0).sum(2)
