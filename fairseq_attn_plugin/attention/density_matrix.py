"""Attention density matrices (Charalampous and Chatzis, "Quantum Statistics-Inspired Neural Attention").

The N x N matrix Psi has the ordinary scores alpha_j on its diagonal (eq. 6) and, off it, scores of *pairs* of source
positions. The weights are a = normalise_k( mean_j Psi_jk ) (eq. 9), the mean over the sentence's own length n. With
L_jk = tanh(x_j + x_k) (eq. 10) a pair's score is

    mqt   sigma_jk = w_s L_jk . s             (eq. 11, w_s a scalar)
    aqt   sigma_jk = w . tanh(L_jk + s)       (eq. 12, w a vector)

Both equations need encodings and states of one width. Encodings h_j of any width have three readings
(``--adm-pairs``):

    encodings      x_j = h_j, equation 10 as it is written, the default; mqt projects the pair as `general` projects an
                   encoding, sigma_jk = w_s (W L_jk) . s, and aqt projects s, sigma_jk = w . tanh(L_jk + P s)
    keys           x_j = W h_j, projected to the width of s
    centred-keys   x_j = W h_j - mean_i W h_i, the mean over the sentence

A vector that all keys of a sentence have in common does not change a softmax over s . k_j. In tanh(k_j + k_k) it does:
it drives tanh into saturation, where gradients vanish, and nothing bounds it. Centred keys have none, so that the pairs
ignore it as the scores do. Encodings of an LSTM are bounded by 1, which keeps tanh away from saturation.

Only the column sums of Psi are ever needed, and those do not need the N^2 pairs at every decoder step:

* mqt is linear in s: with g_k = sum_{j != k} L_jk, once per sentence, sum_{j != k} sigma_jk is w_s g_k . s over keys
  and w_s (W g_k) . s over encodings. Exact.
* aqt: x -> tanh(x + s) is smooth on [-1, 1], where L_jk lies, so it is interpolated at M Chebyshev nodes x_m:
  sum_{j != k} sigma_jk = sum_m tanh(x_m + s) . (w * G_mk) with G_mk = sum_{j != k} l_m(L_jk), once per sentence. The
  error falls by a factor of about 3.4 per node (nearest pole at i pi/2) and reaches float32's rounding at M = 12, the
  default of ``--adm-nodes``.
"""

from dataclasses import dataclass
from typing import ClassVar, Dict, NamedTuple, Optional

import torch
from torch import Tensor, nn

from ..ops.deferred import matmul_transposed, share
from ..ops.pairs.all_pairs import chebyshev_nodes
from ..ops.pairs.pair_pooling import pooled_basis, pooled_tanh
from ..options import option
from .base import AttentionConfig, Penalty
from .biases import BiasMemory
from .part_registry import need_own
from .registry import register_attention
from .scored import ScoredAttention
from .scores import GeneralScore, projection


@dataclass
class ADMConfig(AttentionConfig):
    prefix: ClassVar[str] = "adm"

    pairs: str = option(
        "encodings",
        "what pairs are formed of: encodings (equation 10 as written), keys, their projections, or centred-keys, keys "
        "minus their mean over the sentence (default: encodings)",
        before="keys",
    )


class ADMMemory(NamedTuple):
    encodings: Tensor  # [B, N, Dh]
    diagonal: Optional[Tensor]  # [B, N, Dk], keys of the diagonal score; None where they are part of `pairs`
    pairs: Tensor  # [B, N, F], the means over pairs
    length: Tensor  # [B, 1, 1], number of words n
    pad_mask: Optional[Tensor]  # [B, N]
    bias: Optional[BiasMemory] = None


class DensityMatrixAttention(ScoredAttention):
    """What mqt and aqt have in common: the vectors of the pairs, and the diagonal."""

    Config = ADMConfig
    takes = ScoredAttention.takes | {"documents"}
    scores_are_logits = True
    config: ADMConfig
    projection: Optional[nn.Linear]  # W of the pairs; None where there is none, or `general` has it

    def __init__(self, query_dim: int, memory_dim: int, config: ADMConfig):
        super().__init__(query_dim, memory_dim, config)
        known = ("centred-keys", "encodings", "keys")
        need_own(config.pairs in known, config, "pairs", f"one of {', '.join(known)}")

    def _matrix(self) -> nn.Linear:
        """W, which `general` shares."""
        return self.score.projection if self.projection is None else self.projection  # type: ignore[return-value]

    def _paired(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """The vectors x that form the pairs, ``[B, N, D]``."""
        if self.config.pairs == "encodings":
            return encodings
        keys: Tensor = self._matrix()(encodings)
        return centred(keys, pad_mask) if self.config.pairs == "centred-keys" else keys

    def penalties(self, memory: ADMMemory, weights: Tensor, step_mask: Optional[Tensor] = None) -> Dict[str, Penalty]:
        """Those of the biases and, outside training, the :func:`.pair_statistics`, which are only logged."""
        found = super().penalties(memory, weights, step_mask)
        if not self.training:
            steps = weights[..., 0].numel() if step_mask is None else (~step_mask).sum()
            paired = self._paired(memory.encodings, memory.pad_mask)
            for name, value in pair_statistics(paired, memory.pad_mask).items():
                found[f"pair_{name}_statistic"] = Penalty(value * steps, 0.0)
        return found


def centred(x: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
    """x_j - mean_i x_i, the mean over the real positions of each sentence, in float32 at least; zero on padding.

    Args:
        x: ``[B, N, D]``
        pad_mask: ``[B, N]``, True on padding
    """
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    if pad_mask is None:
        return (wide - wide.mean(1, keepdim=True)).to(x.dtype)
    padding = pad_mask.unsqueeze(-1)
    count = (~padding).sum(1, keepdim=True).clamp(min=1)
    mean = wide.masked_fill(padding, 0.0).sum(1, keepdim=True) / count
    return (wide - mean).masked_fill(padding, 0.0).to(x.dtype)


@torch.no_grad()
def pair_statistics(x: Tensor, pad_mask: Optional[Tensor] = None) -> Dict[str, Tensor]:
    """How far the pairs L_jk = tanh(x_j + x_k) of a batch are from saturation.

    Args:
        x: ``[B, N, D]``, the vectors that form the pairs
        pad_mask: ``[B, N]``, True on padding

    Returns:
        - ``slope``: the mean of 1 - L_jk^2 over dimensions and pairs of neighbouring words, k = j + 1; 1 without pairs
        - ``offset``: the root mean square over dimensions of the mean vector of all words
        - ``size``: the root mean square of x over words and dimensions
    """
    real = torch.ones(x.shape[:2], dtype=torch.bool, device=x.device) if pad_mask is None else ~pad_mask
    words, neighbours = x[real].float(), real[:, 1:] & real[:, :-1]
    pairs = torch.tanh((x[:, 1:] + x[:, :-1])[neighbours].float())
    return {
        "slope": 1 - pairs.square().mean() if len(pairs) else words.new_ones(()),
        "offset": words.mean(0).square().mean().sqrt(),
        "size": words.square().mean().sqrt(),
    }


def lengths(encodings: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """The number of words n of each sentence, ``[B, 1, 1]``."""
    if pad_mask is None:
        return encodings.new_full((encodings.size(0), 1, 1), encodings.size(1))
    # Nothing is divided by zero where a row is all padding.
    return (~pad_mask).sum(1).clamp(min=1).to(encodings.dtype)[:, None, None]


@register_attention("mqt")
class MultiplicativeDensityMatrix(DensityMatrixAttention):
    """Equations 10 and 11; with the diagonal of `general` the scores are, by ``--adm-pairs``,

    keys: s . (k_k + w_s g_k(k)) / n with k = W h;   encodings: s . W (h_k + w_s g_k(h)) / n,

    where g_k(x) = sum_{j != k} tanh(x_j + x_k). Over centred keys k has no mean; the scores of the diagonal then differ
    from s . W h by what is the same for all positions. A step costs what `general` costs.
    """

    def __init__(self, query_dim: int, memory_dim: int, config: ADMConfig):
        super().__init__(query_dim, memory_dim, config)
        shared = isinstance(self.score, GeneralScore)
        self.projection = None if shared else projection(memory_dim, query_dim, bias=False)
        self.pair_weight = nn.Parameter(torch.ones(()))  # with 0 the weights would begin nearly uniform

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> ADMMemory:
        x, n = self._paired(encodings, pad_mask), lengths(encodings, pad_mask)
        sums = self.pair_weight * pooled_tanh(x, pad_mask)  # w_s g_k of eqs. 10 and 11
        diagonal = None
        if isinstance(self.score, GeneralScore):
            sums = self.score.scaled(x) + sums  # alpha_k = (W h_k) . s has the form of the pairs
        else:
            diagonal = share(self.score.precompute(encodings))
        # Divided before any product: sums over many positions could leave float16's range.
        means = sums / n
        if self.config.pairs == "encodings":
            means = self._matrix()(means)
        return ADMMemory(share(encodings), diagonal, share(means), n, pad_mask)

    def _score(self, query: Tensor, memory: ADMMemory) -> Tensor:
        # The column means of Psi (eq. 6), whose softmax is eq. 9: ScoredAttention.step normalises them.
        scores = matmul_transposed(query, memory.pairs)
        if memory.diagonal is not None:
            scores = scores + self.score(query, memory.diagonal) / memory.length
        return scores


@dataclass
class AQTConfig(ADMConfig):
    nodes: int = option(12, "Chebyshev nodes of aqt (default: 12, exact to float32's rounding)")


@register_attention("aqt")
class AdditiveDensityMatrix(DensityMatrixAttention):
    """Equations 10 and 12: sigma_jk = w . tanh(tanh(x_j + x_k) + q) with, by ``--adm-pairs``,

    keys: x = W h, centred or not, q = s;   encodings: x = h, q = P s, the state in the width of the encodings.
    """

    Config = AQTConfig
    default_score = "additive"
    config: AQTConfig

    def __init__(self, query_dim: int, memory_dim: int, config: AQTConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(1 <= config.nodes <= 64, config, "nodes", "between 1 and 64; 12 is exact to float32's rounding")
        self.projection = self.query_projection = None
        if config.pairs == "encodings":
            self.query_projection = projection(query_dim, memory_dim, bias=False)
        elif not isinstance(self.score, GeneralScore):
            self.projection = projection(memory_dim, query_dim, bias=False)
        width = memory_dim if config.pairs == "encodings" else query_dim
        self.pair_vector = nn.Parameter(torch.empty(width).uniform_(-0.1, 0.1))

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> ADMMemory:
        x, n = self._paired(encodings, pad_mask), lengths(encodings, pad_mask)
        # the keys of alpha_k: for `general` those of the pairs, if these are over keys
        shared = isinstance(self.score, GeneralScore) and self.config.pairs != "encodings"
        diagonal = share(self.score.scaled(x) if shared else self.score.precompute(encodings))
        sums = pooled_basis(x, self.config.nodes, pad_mask)  # G_mk, of eq. 10
        means = (sums * (self.pair_vector / n).unsqueeze(2)).flatten(2)
        return ADMMemory(share(encodings), diagonal, share(means), n, pad_mask)

    def _score(self, query: Tensor, memory: ADMMemory) -> Tensor:
        # The column means of Psi (eq. 6), whose softmax is eq. 9: ScoredAttention.step normalises them.
        q = query if self.query_projection is None else self.query_projection(query)
        nodes = chebyshev_nodes(self.config.nodes, device=q.device, dtype=q.dtype)
        values = torch.tanh(nodes[:, None] + q.unsqueeze(-2)).flatten(-2)  # eq. 12 at the nodes
        assert memory.diagonal is not None
        return matmul_transposed(values, memory.pairs) + self.score(query, memory.diagonal) / memory.length
