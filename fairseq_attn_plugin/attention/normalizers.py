"""Normalisers: scores ``[..., N]`` to non-negative weights that sum to one over the real positions.

    softmax     argmax_p  p . x + H(p)            (H: Shannon's entropy)
    sparsemax   argmax_p  p . x - |p|^2 / 2       (Martins and Astudillo 2016)
    entmax15    argmax_p  p . x + H_1.5(p)        (Peters, Niculae and Martins 2019; H_1.5: Tsallis' entropy)
    fusedmax    argmax_p  p . x - |p|^2 / 2 - lambda sum_j |p_{j+1} - p_j|      (Niculae and Blondel 2017)

p ranges over the probability simplex. All but softmax give exact zeros; the library entmax computes sparsemax and
entmax15. A normaliser computes in float32 for half-precision scores and returns the type of the scores.
"""

import math
from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..ops.devices import exporting
from ..ops.likelihoods.first_order import LOG_ZERO
from ..ops.precision import in_full
from ..ops.total_variation import total_variation_prox
from ..options import option
from .part_registry import Part, PartConfig, Parts, need_own

# Weights below this count as this in logarithms: the gradient of log p at an underflowed p would not be finite.
_SMALLEST = 1e-30
_LOWEST = torch.finfo(torch.float32).min  # a score on padding


class Normalizer(Part):
    """Scores to weights.

    Attributes:
        sparse: whether weights of real positions may be exactly zero

    Raises:
        OptionError: options with wrong values
    """

    sparse: ClassVar[bool] = False

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """Weights of scores ``[..., N]``.

        Args:
            scores: meaningless on padding
            pad_mask: True on padding, of a shape that broadcasts to that of the scores; None without padding
        """
        raise NotImplementedError

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """log of the weights of these scores, in float32 or better; ``LOG_ZERO`` on padding. A normaliser that knows
        the logarithms without the weights overrides it."""
        return log_of_weights(weights, pad_mask)


NORMALIZERS: Parts[Normalizer] = Parts("attention_normalizer", "normaliser", submodules=True)
register_normalizer = NORMALIZERS.register


def over_words(
    scores: Tensor,
    pad_mask: Optional[Tensor],
    activation: Callable[..., Tensor],
    fill: float = _LOWEST,
) -> Tensor:
    """``activation(scores, dim=-1)`` in float32 or better, without padding.

    Args:
        scores: ``[..., N]``
        pad_mask: True on padding, or None
        activation: that gives weights of zero to positions with the score ``fill``
        fill: score of padding. It is finite: a row of padding only stays free of NaN, forward and backward.
    """
    x = in_full(scores)
    if pad_mask is None:
        return activation(x, dim=-1).type_as(scores)
    return activation(x.masked_fill(pad_mask, fill), dim=-1).masked_fill(pad_mask, 0.0).type_as(scores)


def log_softmax(scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """log softmax over the real positions, in float32 or better; ``LOG_ZERO`` on padding."""
    x = in_full(scores)
    if pad_mask is None:
        return x.log_softmax(-1)
    return x.masked_fill(pad_mask, _LOWEST).log_softmax(-1).masked_fill(pad_mask, LOG_ZERO)


def log_of_weights(weights: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """log of any normaliser's weights, in float32 or better; ``LOG_ZERO`` on padding, log 1e-30 where a weight is
    less than that (sparse normalisers give exact zeros)."""
    logs = in_full(weights).clamp(min=_SMALLEST).log()
    return logs if pad_mask is None else logs.masked_fill(pad_mask, LOG_ZERO)


def divide_by_maximum(weights: Tensor) -> Tensor:
    """Weights ``[..., N]`` divided by the greatest of each row; rows of zeros stay zeros.

    A greatest weight below 1e-30 (in float16 below its smallest normal number) counts as that: its reciprocal, which
    the gradient has, would not be finite.
    """
    x = in_full(weights)
    smallest = max(_SMALLEST, torch.finfo(weights.dtype).tiny)
    return (x / x.amax(-1, keepdim=True).clamp(min=smallest)).type_as(weights)


@register_normalizer("softmax")
class Softmax(Normalizer):
    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        if pad_mask is None or exporting():
            return _masked_softmax(scores, pad_mask).type_as(scores)
        return _MaskedSoftmax.apply(scores, pad_mask)

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """From the scores, which stays exact when a weight underflows."""
        return log_softmax(scores, pad_mask)


def _masked_softmax(scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
    """In float32 or better. Padding beside words gets exactly zero; a row of padding only gets equal weights, which
    costs no second mask in every step of a decoder."""
    x = in_full(scores)
    return torch.softmax(x if pad_mask is None else x.masked_fill(pad_mask, _LOWEST), dim=-1)


class _MaskedSoftmax(Function):
    """:func:`_masked_softmax` in one autograd node. The gradient a_j (g_j - sum_k a_k g_k) is zero on padding, where a
    is, so that the backward pass does not mask anything."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, pad_mask: Tensor) -> Tensor:
        weights = _masked_softmax(scores, pad_mask)
        ctx.save_for_backward(weights)
        ctx.dtype = scores.dtype
        return weights.to(scores.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None]:
        (weights,) = ctx.saved_tensors
        return torch._softmax_backward_data(grad.to(weights.dtype), weights, -1, weights.dtype).to(ctx.dtype), None


# Padding's score: low enough to get no weight, high enough for the running sums of these algorithms not to overflow.
_FILL = -1e6


@register_normalizer("sparsemax")
class Sparsemax(Normalizer):
    sparse = True
    function: ClassVar[str] = "sparsemax"  # of the library

    def __init__(self, config: PartConfig):
        super().__init__(config)
        import entmax

        self.activation = getattr(entmax, self.function)

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        return over_words(scores, pad_mask, self.activation, _FILL)


@register_normalizer("entmax15")
class Entmax15(Sparsemax):
    function = "entmax15"


@dataclass
class FusedmaxConfig(PartConfig):
    prefix: ClassVar[str] = "fusedmax"

    strength: float = option(0.1, "lambda, the price of a difference between neighbours' weights (default: 0.1)")


@register_normalizer("fusedmax")
class Fusedmax(Sparsemax):
    """fusedmax(x) = argmin_p |p - x|^2 / 2 + lambda sum_j |p_{j+1} - p_j| = sparsemax(prox(x)).

    Neighbouring words get equal weights, in groups; other groups get exact zeros. lambda is ``--fusedmax-strength``;
    without it fusedmax is sparsemax. The prox is that of :mod:`fairseq_attn_plugin.ops.total_variation`.
    """

    Config = FusedmaxConfig

    def __init__(self, config: FusedmaxConfig):
        super().__init__(config)
        need_own(0 <= config.strength < math.inf, config, "strength", "0 or more")

    def forward(self, scores: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        x = in_full(scores)
        real = torch.ones_like(x, dtype=torch.bool) if pad_mask is None else ~pad_mask.expand_as(x)
        smooth = total_variation_prox(x, real, self.config.strength)
        return super().forward(smooth, pad_mask).type_as(scores)
