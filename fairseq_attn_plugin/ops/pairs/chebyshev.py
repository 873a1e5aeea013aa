"""Chebyshev nodes on [-1, 1], and the Lagrange basis that interpolates between them.

A function f that is smooth on [-1, 1] is close to sum_m f(x_m) l_m(x), where l_m is the polynomial that is 1 at node
x_m and 0 at the others. In Chebyshev polynomials T_p, l_m(x) = sum_p C[m, p] T_p(x), with C the matrix of the discrete
cosine transform (Trefethen 2013, "Approximation Theory and Approximation Practice", chapters 3 and 4).
"""

from __future__ import annotations

import math
from typing import Optional

import torch
from torch import Tensor

from ..devices import constant

__all__ = ["chebyshev_nodes", "cosine_matrix", "lagrange_basis"]


@constant
def chebyshev_nodes(count: int, dtype: torch.dtype = torch.float64, device: Optional[torch.device] = None) -> Tensor:
    """The ``count`` Chebyshev points of the first kind, x_m = cos(pi (2m - 1) / (2 count)), shape ``[count]``."""
    m = torch.arange(1, count + 1, dtype=torch.float64)
    return torch.cos(math.pi * (2 * m - 1) / (2 * count)).to(device=device, dtype=dtype)


@constant
def cosine_matrix(count: int, dtype: torch.dtype = torch.float64, device: Optional[torch.device] = None) -> Tensor:
    """C[m, p] with l_m(x) = sum_p C[m, p] T_p(x): the discrete cosine transform."""
    p = torch.arange(count, dtype=torch.float64)
    m = torch.arange(1, count + 1, dtype=torch.float64)
    matrix = torch.cos(math.pi * (2 * m[:, None] - 1) * p / (2 * count)) * (2.0 / count)
    matrix[:, 0] /= 2
    return matrix.to(device=device, dtype=dtype)


def lagrange_basis(x: Tensor, count: int) -> Tensor:
    """l_m(x) for the Chebyshev nodes, shape ``x.shape + (count,)``: the plain formula, for tests and small inputs."""
    angle = torch.arccos(x.clamp(-1, 1))
    polynomials = torch.cos(angle[..., None] * torch.arange(count, dtype=x.dtype, device=x.device))
    return polynomials @ cosine_matrix(count).to(x).t()
