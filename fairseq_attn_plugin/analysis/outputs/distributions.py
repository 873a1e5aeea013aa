"""How alike two rankings or two distributions of the same few things are, for many rows at once."""

from __future__ import annotations

import numpy as np


def kendall_tau(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Kendall's tau-b of the rows, from -1 to 1 (Kendall 1945, "The Treatment of Ties in Ranking Problems").

    tau_b = sum_jk sgn(a_j - a_k) sgn(b_j - b_k) / sqrt(sum_jk sgn^2(a_j - a_k) sum_jk sgn^2(b_j - b_k))

    Args:
        a, b: ``[T, N]``

    Returns:
        ``[T]``; NaN where all values of a row are equal
    """
    result = np.full(len(a), np.nan)
    for row, pair in enumerate(zip(a, b)):  # one at a time: the matrices are square
        one, other = (np.sign(x[:, None] - x[None, :]).astype(np.float64) for x in pair)
        norm = np.sqrt((one**2).sum() * (other**2).sum())
        if norm > 0:
            result[row] = (one * other).sum() / norm
    return result


def jensen_shannon(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Jensen-Shannon divergence of the rows in nats, from 0 to ln 2 (Lin 1991); each row is divided by its sum.

    JSD = KL(p || m) / 2 + KL(q || m) / 2 with m = (p + q) / 2

    Args:
        a, b: ``[T, N]``, 0 or more

    Returns:
        ``[T]``; NaN where all values of a row are zero
    """
    with np.errstate(invalid="ignore"):
        p, q = (x.astype(np.float64) / x.sum(1, keepdims=True) for x in (a, b))
    m = (p + q) / 2

    def divergence(x: np.ndarray) -> np.ndarray:
        ratio = np.divide(x, m, out=np.ones_like(x), where=x > 0)
        return np.asarray((x * np.log(ratio)).sum(1))

    return (divergence(p) + divergence(q)) / 2
