"""Sums over pairs of positions, pair by pair, in memory that grows linearly with the number of positions.

For vectors k_1..k_N of one sentence let L_jk = tanh(k_j + k_k), element by element (equation 10 of Charalampous and
Chatzis). Attention density matrices need, for every position k,

    g_k    = sum_{j != k} L_jk                     (mqt)
    G_{mk} = sum_{j != k} l_m(L_jk),  m = 1..M     (aqt)

over the real positions j, where l_m is the Lagrange basis of the M Chebyshev nodes x_m on [-1, 1], the polynomial that
is 1 at node x_m and 0 at the others. A function f that is smooth on [-1, 1] is close to sum_m f(x_m) l_m(x). In
Chebyshev polynomials T_p, l_m(x) = sum_p C[m, p] T_p(x), with C the matrix of the discrete cosine transform (Trefethen
2013, "Approximation Theory and Approximation Practice", chapters 3 and 4). The N^2 D values never exist at once:
forward and backward pass process the pairs in blocks of rows, and the backward pass recomputes them.

Three observations make this fast:

* tanh(a + b) = 1 - 2 / (1 + e^{2a} e^{2b}): a pair costs one product and one reciprocal, the exponentials are taken
  once per key, and padding adds nothing if its "exponential" is infinite.
* L_jk = L_kj: only pairs j >= k are computed, and each is added to both of its rows.
* l_m is a fixed linear combination of the Chebyshev polynomials T_0..T_{M-1}. It suffices to sum T_p(L_jk), with the
  recurrence T_{p+1}(x) = 2 x T_p(x) - T_{p-1}(x), and to multiply the sums by an M x M matrix. Clenshaw's recurrence
  gives the derivative of the sums from T_p'(x) = p U_{p-1}(x).
"""

import math
from typing import Any, Iterator, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..devices import constant, on_gpu
from ..precision import in_full, without_autocast

# Elements of one block of pairs. The five buffers of the Chebyshev recurrence then stay in the second-level cache of a
# processor; a GPU needs few large launches.
_BLOCK_ELEMENTS = {"cpu": 1 << 18, "cuda": 1 << 25}


def _prepare(keys: Tensor, pad_mask: Optional[Tensor]) -> Tuple[Tensor, bool]:
    """The operands of :func:`_pair`: e^{2k}, or k on a GPU and if some e^{2k} overflows; infinite on padding.

    In both cases u = 1 / (1 + e^{2 (k_j + k_k)}) is exactly zero for every pair with padding.

    Returns:
        the prepared keys, and whether they are exponentials
    """
    keys = in_full(keys)  # e^{2k} leaves float16's range at k = 5.5
    bound = math.log(torch.finfo(keys.dtype).max) / 2 - 1
    exponential = not on_gpu(keys) and (keys.numel() == 0 or bool(keys.abs().amax() <= bound))
    prepared = torch.exp(2 * keys) if exponential else keys
    if pad_mask is not None:
        prepared = prepared.masked_fill(pad_mask.unsqueeze(-1), math.inf)
    return prepared, exponential


def _pair(one: Tensor, other: Tensor, exponential: bool) -> Tensor:
    """u = (1 - L) / 2 of prepared keys."""
    if exponential:
        return (one * other).add_(1).reciprocal_()
    return (one + other).mul_(-2).sigmoid_()


# More rows compute more pairs twice (j and k within the rows); fewer rows mean more and smaller operations. A GPU takes
# all rows at once, as long as the pairs fit into a block.
_ROWS = 8


class _Block(NamedTuple):
    """Pairs of the sentences ``batch`` with k in ``rows`` and j in ``columns`` = rows.start..N."""

    batch: slice
    rows: slice
    columns: slice

    def of_rows(self, x: Tensor) -> Tensor:
        return x[self.batch, self.rows, None]

    def of_columns(self, x: Tensor) -> Tensor:
        return x[self.batch, None, self.columns]

    def add_to(self, total: Tensor, values: Tensor, sign: float = 1.0) -> None:
        """Adds symmetric values ``[b, rows, columns, D]`` to the sums of both positions in ``total`` ``[B, N, D]``."""
        rows = self.rows.stop - self.rows.start
        total[self.batch, self.rows].add_(values.sum(2), alpha=sign)
        others = values[:, :, rows:]
        if others.size(2):
            total[self.batch, self.rows.stop :].add_(others[:, 0] if rows == 1 else others.sum(1), alpha=sign)


def _blocks(prepared: Tensor, exponential: bool) -> Iterator[Tuple[_Block, Tensor]]:
    """Yields blocks that cover every pair j >= k, each with its u_kj, ``[b, rows, columns, D]``."""
    batch, length, dim = prepared.shape
    budget = _BLOCK_ELEMENTS.get(prepared.device.type, 1 << 25)
    start = 0
    while start < length:
        columns = (length - start) * dim
        most = length if on_gpu(prepared) else _ROWS
        end = min(length, start + max(1, min(budget // columns, most)))
        sentences = max(1, budget // (columns * (end - start)))
        for first in range(0, batch, sentences):
            block = _Block(slice(first, min(batch, first + sentences)), slice(start, end), slice(start, length))
            yield block, _pair(block.of_rows(prepared), block.of_columns(prepared), exponential)
        start = end


class _Sums(Function):
    """G_mk: the sums of T_p(L_jk) over j != k for p = 0..M-1, times the cosine matrix: ``[B, N, M, D]``; or, without
    ``count``, those of T_1 alone, g_k ``[B, N, D]``."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, pad_mask: Optional[Tensor], count: int) -> Tensor:
        prepared, ctx.exponential = _prepare(keys, pad_mask)
        ctx.save_for_backward(prepared, pad_mask)
        ctx.count, ctx.dtype = count, keys.dtype
        batch, length, dim = prepared.shape
        total = prepared.new_zeros(batch, length, count or 1, dim)
        if count:
            total[:, :, 0] = length - 1  # T_0 = 1
        first, last = (0, count - 1) if count else (1, 1)
        for block, u in _blocks(prepared, ctx.exponential):
            for p, sign, values in _polynomials(u, last):
                block.add_to(total[:, :, p - first], values, sign)
        for p, sign, values in _polynomials(_pair(prepared, prepared, ctx.exponential), last):
            total[:, :, p - first].sub_(values, alpha=sign)
        if pad_mask is not None:
            # A pair with padding has L = 1 and T_p = 1: subtract these pairs, and clear the sums of padding.
            total -= pad_mask.sum(1).to(total.dtype)[:, None, None, None]
            total.masked_fill_(pad_mask[:, :, None, None], 0.0)
        if not count:
            return total.squeeze(2).to(keys.dtype)
        with without_autocast(total):
            return torch.matmul(cosine_matrix(count, total.dtype, total.device), total).to(keys.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None, None]:
        prepared, pad_mask = ctx.saved_tensors
        grad = grad.to(prepared.dtype)
        if ctx.count:
            matrix = _of_derivatives(ctx.count, prepared.dtype, prepared.device)
            with without_autocast(prepared):
                grad = torch.matmul(matrix, grad)
        else:
            grad = grad.unsqueeze(2)
        if pad_mask is not None:
            grad = grad.masked_fill(pad_mask[:, :, None, None], 0.0)
        gradients = grad.unbind(2)
        total = torch.zeros_like(prepared)
        if gradients:
            for block, u in _blocks(prepared, ctx.exponential):
                slope = _clenshaw(u, [block.of_rows(g) for g in gradients], [block.of_columns(g) for g in gradients])
                block.add_to(total, slope)
            diagonal = _pair(prepared, prepared, ctx.exponential)
            total.sub_(_clenshaw(diagonal, gradients, gradients)).mul_(4)
        return total.to(ctx.dtype), None, None


def _sign(p: int) -> float:
    """s_p with s_{p+1} = -s_{p-1}: the recurrence of s_p T_p has no subtraction, one fused operation per degree."""
    return -1.0 if p % 4 in (2, 3) else 1.0


@constant
def _of_derivatives(count: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """The transposed cosine matrix for derivatives: that of sum_m C[m, p] T_p needs p U_{p-1}, so that the matrix takes
    degree and sign."""
    degrees = [p * _sign(p) for p in range(1, count)]
    return (cosine_matrix(count)[:, 1:] * torch.tensor(degrees)).t().to(device=device, dtype=dtype)


def _polynomials(u: Tensor, last: int) -> Iterator[Tuple[int, float, Tensor]]:
    """Yields ``(p, s_p, s_p T_p(1 - 2u))`` for p = 1..last; the next step overwrites the tensor."""
    if not last:
        return
    x = torch.add(u.new_ones(()), u, alpha=-2)
    yield 1, _sign(1), x
    if last > 1:
        previous, current = torch.ones_like(x), x.clone()
        for p in range(2, last + 1):
            previous.addcmul_(x, current, value=2 * _sign(p - 1) * _sign(p))
            previous, current = current, previous
            yield p, _sign(p), current


def _clenshaw(u: Tensor, row_grads: Sequence[Tensor], column_grads: Sequence[Tensor]) -> Tensor:
    """A quarter of d/d(k_j + k_k) sum_p s_p T_p(L) (row_p + column_p), for gradients that already hold p s_p.

    b_p = p (row_p + column_p) + 2 x b_{p+1} - b_{p+2} gives sum_p p U_{p-1}(x) (row_p + column_p) = b_1, in the
    signed form of :func:`_polynomials`; d L / d(k_j + k_k) = 1 - L^2 = 4 (u - u^2).
    """
    latest = row_grads[-1] + column_grads[-1]
    if len(row_grads) > 1:
        x, later = torch.add(u.new_ones(()), u, alpha=-2), torch.zeros_like(latest)
        for p in range(len(row_grads) - 1, 0, -1):
            factor = 2 * _sign(p) * _sign(p + 1)
            later.addcmul_(x, latest, value=factor).add_(row_grads[p - 1]).add_(column_grads[p - 1])
            later, latest = latest, later
    return latest.mul_(torch.addcmul(u, u, u, value=-1))


def sum_pairs(keys: Tensor, pad_mask: Optional[Tensor], count: int = 0) -> Tensor:
    """g_k ``[B, N, D]``, or with ``count`` nodes G_mk ``[B, N, count, D]``; see :mod:`.pair_pooling`."""
    return _Sums.apply(keys, pad_mask, count)


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
