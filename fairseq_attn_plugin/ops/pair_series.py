"""Sums over pairs of positions in time and memory that grow linearly with the number of positions.

For positions x_1..x_N of one sentence and functions F_1..F_M that are trigonometric series on the range of x_j + x_k
(:mod:`fairseq_attn_plugin.ops.fourier_extension`), unit by unit,

    G_mk = sum_{j != k} F_m(x_j + x_k) = sum_q  a_mq Re P_qk + b_mq Im P_qk,
    P_qk = e_qk (S_q - e_qk),   e_qj = exp(i w_q x_j),   S_q = sum_j e_qj,

because exp(i w (x_j + x_k)) is a product. A frequency costs N operations, where all pairs cost N^2. The backward pass
has the same form: with p_qk = dL/dP_qk

    dL/dx_k = sum_q w_q Im( u_qk conj(S_q - 2 e_qk) + R_q conj(e_qk) ),   u_qk = p_qk conj(e_qk),   R_q = sum_k u_qk.

Positions are processed in blocks, and the backward pass computes e again. Padding has e = 0.
"""

from __future__ import annotations

from typing import Any, Iterator, List, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .fourier_extension import Series
from .precision import without_autocast

__all__ = ["pooled_series"]

# Elements of e in one block. A processor then works in its caches; a GPU needs few large launches.
_BLOCK_ELEMENTS = {"cpu": 1 << 20, "cuda": 1 << 26}


class _Blocks:
    """Blocks of a batch ``x`` ``[B, N, D]``, and memory that all of them use in turn.

    ``real`` is 1 for words and 0 for padding, ``[B, N, 1]``, or None.
    """

    def __init__(self, x: Tensor, real: Optional[Tensor], series: Series, chunk_size: int):
        self.x, self.real, self.step = x, real, series.frequency
        self.terms = series.coefficients.size(1) // 2
        batch, length, dim = x.shape
        budget = max(1, _BLOCK_ELEMENTS.get(x.device.type, 1 << 26) // max(1, 2 * self.terms * dim))
        self.positions = max(1, min(length, chunk_size or budget))
        self.sentences = max(1, min(batch, budget // self.positions)) if self.positions >= length else 1
        size = self.sentences * self.positions * dim
        self.memory = [x.new_empty(2 * self.terms * size) for _ in range(3)] + [
            x.new_empty(len(series.coefficients) * size)
        ]
        self.kept: Any = None

    def groups(self) -> Iterator[Tuple[slice, List[slice]]]:
        """Sentences that are processed together, and the blocks of their positions."""
        batch, length, _ = self.x.shape
        blocks = [slice(start, min(length, start + self.positions)) for start in range(0, length, self.positions)]
        for first in range(0, batch, self.sentences):
            yield slice(first, min(batch, first + self.sentences)), blocks

    def buffer(self, index: int, first: int, shape: Tuple[int, ...]) -> Tensor:
        """``[first, *shape]`` of the memory ``index``."""
        size = first * shape[0] * shape[1] * shape[2]
        return self.memory[index][:size].view(first, *shape)

    def waves(self, rows: slice, block: slice) -> Tensor:
        """e of a block, ``[2, Q, b, n, D]``: cosines and sines."""
        x = self.x[rows, block]
        shape = tuple(x.shape)
        waves = self.buffer(0, 2 * self.terms, shape).view(2, self.terms, *shape)
        if self.kept == (rows, block):
            return waves
        real = 1 if self.real is None else self.real[rows, block]
        waves[0, 0], waves[1, 0] = torch.cos(x * (0.5 * self.step)) * real, torch.sin(x * (0.5 * self.step)) * real
        cosine, sine = torch.cos(x * self.step), torch.sin(x * self.step)
        known = 1
        while known < self.terms:  # rotated by w, 2 w, 4 w, ...
            new = min(known, self.terms - known)
            (c, s), (new_c, new_s) = waves[:, :new], waves[:, known : known + new]
            torch.mul(c, cosine, out=new_c).addcmul_(s, sine, value=-1)
            torch.mul(s, cosine, out=new_s).addcmul_(c, sine)
            cosine, sine = cosine * cosine - sine * sine, 2 * cosine * sine
            known += new
        self.kept = (rows, block)
        return waves


class _PooledSeries(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, real: Optional[Tensor], series: Series, chunk_size: int) -> Tensor:
        blocks, matrix = _Blocks(x, real, series, chunk_size), series.coefficients.to(x)
        pooled = x.new_empty(*x.shape[:2], len(matrix), x.size(-1))
        sums = x.new_zeros(2, blocks.terms, x.size(0), 1, x.size(-1))
        for rows, parts in blocks.groups():
            for part in parts:
                sums[:, :, rows] += blocks.waves(rows, part).sum(3, keepdim=True)
            for part in parts:
                (c, s), shape = blocks.waves(rows, part), x[rows, part].shape
                others = torch.sub(
                    sums[:, :, rows],
                    blocks.waves(rows, part),
                    out=blocks.buffer(1, 2 * blocks.terms, shape).view(2, -1, *shape),
                )
                product = blocks.buffer(2, 2 * blocks.terms, shape).view(2, -1, *shape)
                torch.mul(c, others[0], out=product[0]).addcmul_(s, others[1], value=-1)
                torch.mul(s, others[0], out=product[1]).addcmul_(c, others[1])
                result = blocks.buffer(3, len(matrix), shape)
                with without_autocast(x):
                    torch.mm(matrix, product.view(2 * blocks.terms, -1), out=result.view(len(matrix), -1))
                pooled[rows, part] = result.permute(1, 2, 0, 3)
        ctx.save_for_backward(x, real, sums)
        ctx.series, ctx.chunk_size = series, chunk_size
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, None, None, None]:
        x, real, sums = ctx.saved_tensors
        blocks = _Blocks(x, real, ctx.series, ctx.chunk_size)
        # With the factor w_q, which every term of the gradient has.
        matrix = (ctx.series.coefficients * ctx.series.frequencies.repeat(2)).t().to(x).contiguous()
        result = torch.empty_like(x)
        for rows, parts in blocks.groups():
            of_sums = torch.zeros_like(sums[:, :, rows])
            for part in parts:
                turned = _turned(blocks, matrix, grad, rows, part)
                of_sums += turned[0].sum(3, keepdim=True)
            for part in parts:
                if len(parts) > 1:
                    turned = _turned(blocks, matrix, grad, rows, part)
                u, work = turned
                c, s = blocks.waves(rows, part)
                total = torch.mul(u[1], sums[0, :, rows], out=work[0]).addcmul_(u[0], sums[1, :, rows], value=-1)
                total.addcmul_(torch.add(of_sums[1], u[1], alpha=-2, out=work[1]), c)
                total.addcmul_(torch.add(of_sums[0], u[0], alpha=-2, out=work[1]), s, value=-1)
                result[rows, part] = total.sum(0)
        return result, None, None, None


def _turned(blocks: _Blocks, matrix: Tensor, grad: Tensor, rows: slice, part: slice) -> Tuple[Tensor, Tensor]:
    """w_q u of a block and free memory of the same size, both ``[2, Q, b, n, D]``."""
    (c, s), shape = blocks.waves(rows, part), blocks.x[rows, part].shape
    given = blocks.buffer(3, matrix.size(1), shape)
    given.copy_(grad[rows, part].permute(2, 0, 1, 3))
    p, u = (blocks.buffer(index, len(matrix), shape) for index in (1, 2))
    with without_autocast(grad):
        torch.mm(matrix, given.view(matrix.size(1), -1), out=p.view(len(matrix), -1))
    p, u = p.view(2, -1, *shape), u.view(2, -1, *shape)
    torch.mul(p[0], c, out=u[0]).addcmul_(p[1], s)
    torch.mul(p[1], c, out=u[1]).addcmul_(p[0], s, value=-1)
    return u, p


def pooled_series(x: Tensor, series: Series, pad_mask: Optional[Tensor] = None, chunk_size: int = 0) -> Tensor:
    """G_mk for the functions of ``series`` (see the module's text).

    Args:
        x: ``[B, N, D]``, |x| at most the bound of the series; half precision is summed in float32
        series: F functions
        pad_mask: ``[B, N]``, True on padding, which adds nothing and receives zeros
        chunk_size: positions processed at a time; 0 chooses by the size of the cache

    Returns:
        ``[B, N, F, D]``
    """
    dtype = x.dtype
    if dtype in (torch.float16, torch.bfloat16):
        x = x.float()
    real: Optional[Tensor] = None
    if pad_mask is not None:
        real = (~pad_mask).unsqueeze(-1).to(x.dtype)
        x = x.masked_fill(pad_mask.unsqueeze(-1), 0.0)
    pooled: Tensor = _PooledSeries.apply(x, real, series, chunk_size)
    return pooled.to(dtype)
