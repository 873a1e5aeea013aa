"""Functions on an interval as short trigonometric series, which turn sums over pairs into products of sums.

On |z| <= Z a smooth function that is not periodic is close to a series of a period longer than 2 Z (Huybrechs 2010,
"On the Fourier extension of nonperiodic functions"),

    F(z) = sum_{q=1..Q} a_q cos(w_q z) + b_q sin(w_q z),   w_q = (q - 1/2) w.

The error falls geometrically with Q. The coefficients are not unique and are kept small by a ridge, so that float32
evaluates the series without loss.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple, Tuple

import torch
from torch import Tensor

from .chebyshev import chebyshev_nodes, lagrange_basis

__all__ = ["Series", "pair_series"]

_LONGEST = 160  # frequencies; above it the sums over all pairs serve
_PERIODS = (0.5, 0.6, 0.7, 0.8)  # w Z / pi: the smaller, the longer the period


class Series(NamedTuple):
    """Series of F functions on an interval, in float64."""

    frequency: float  # w
    coefficients: Tensor  # [F, 2 Q]: first all a_q, then all b_q
    error: float  # the largest on the interval
    tolerance: float  # the error that was asked for

    @property
    def frequencies(self) -> Tensor:
        """w_q, ``[Q]``."""
        return _frequencies(self.frequency, self.coefficients.size(1) // 2)


@functools.lru_cache(maxsize=256)
def pair_series(count: int, bound: float, tolerance: float) -> Series:
    """Series for sums over pairs x_j + x_k with |x| <= ``bound``, hence on |z| <= 2 ``bound``.

    Args:
        count: 0: the series of tanh(z). Otherwise those of l_m(tanh z), m = 1..count, the Lagrange basis of Chebyshev
            nodes x_m.
        tolerance: the error of tanh(z), or of sum_m tanh(x_m + s) l_m(tanh z) for every s, which is what the basis is
            for. Single l_m, polynomials of high degree, may be less exact: their errors cancel in the sum.

    Returns:
        the shortest series found; if none is within the tolerance, the longest one tried
    """
    terms, best = int(4 + 5 * bound), None
    while best is None or (best.error > tolerance and terms <= _LONGEST):
        best = min((_fit(count, bound, terms, share, tolerance) for share in _PERIODS), key=lambda series: series.error)
        terms += max(1, terms // 8)
    return best


def _fit(count: int, bound: float, terms: int, share: float, tolerance: float) -> Series:
    half = 2 * bound
    frequency = share * math.pi / half
    points = half * chebyshev_nodes(8 * terms + 32)
    waves, (values, weights) = _waves(points, frequency, terms), _functions(count, points)
    # min |waves K weights - values weights|^2 + ridge |K|^2 over K, in the coordinates in which both are diagonal. A
    # combination of functions that matters little (a small singular value of `weights`) gets a strong ridge.
    left, scale, right = torch.linalg.svd(waves, full_matrices=False)
    turn, importance, _ = torch.linalg.svd(weights, full_matrices=False)
    ridge = len(points) * (tolerance / 4) ** 2 / importance.clamp(min=1e-300) ** 2
    damped = scale[:, None] / (scale[:, None] ** 2 + ridge)
    coefficients = right.t() @ (damped * (left.t() @ (values @ turn))) @ turn.t()
    check = torch.linspace(-half, half, 4 * len(points), dtype=torch.float64)
    values, weights = _functions(count, check)
    error = ((_waves(check, frequency, terms) @ coefficients - values) @ weights).abs().max()
    return Series(frequency, coefficients.t().contiguous(), float(error), tolerance)


def _frequencies(frequency: float, terms: int) -> Tensor:
    return (torch.arange(terms, dtype=torch.float64) + 0.5) * frequency


def _waves(z: Tensor, frequency: float, terms: int) -> Tensor:
    angle = z[:, None] * _frequencies(frequency, terms)
    return torch.cat([angle.cos(), angle.sin()], dim=1)


def _functions(count: int, z: Tensor) -> Tuple[Tensor, Tensor]:
    """The functions at z, ``[len(z), F]``, and the combinations of them that must be exact, ``[F, S]``."""
    if not count:
        return z.tanh()[:, None], torch.ones(1, 1, dtype=torch.float64)
    shifts = torch.linspace(-4, 4, 81, dtype=torch.float64)
    return lagrange_basis(z.tanh(), count), torch.tanh(chebyshev_nodes(count)[:, None] + shifts)
