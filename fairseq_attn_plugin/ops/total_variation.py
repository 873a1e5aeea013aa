"""Denoising by total variation in one dimension, exactly and for a batch (the fused lasso's signal approximator).

    prox(x) = argmin_y  sum_j (y_j - x_j)^2 / 2 + lambda sum_j |y_{j+1} - y_j|

As lambda grows from zero, neighbours become equal and stay so (Friedman, Hastie, Höfling and Tibshirani 2007, "Pathwise
coordinate optimization"). Between two such events a group g of n neighbours with the sum S of its x is at the level

    y_g(lambda) = (S + lambda (sign(y_{g+1} - y_g) - sign(y_g - y_{g-1}))) / n,

a straight line. The path is followed from event to event, in all rows at once: at most N rounds of a few operations on
``[R, N]``, on any device. On a processor each round asks whether a row has an event left. A GPU does all N - 1 rounds,
because the host would have to wait for each answer. The Jacobian is the mean over each group (Niculae and Blondel 2017,
"A regularized framework for sparse and structured neural attention").
"""

from typing import Any, Tuple

import torch
from torch import Tensor

from .devices import on_gpu, scripted


def total_variation_prox(x: Tensor, real: Tensor, strength: float) -> Tensor:
    """The prox of the module's text, of every row. Positions that are not real are left out: the real positions
    before and after them are neighbours.

    Args:
        x: ``[..., N]`` in float32 or better, finite
        real: ``[..., N]``, whether a position counts; of the shape of ``x``
        strength: lambda, 0 or more

    Returns:
        ``[..., N]``, meaningless where not ``real``
    """
    rows = (x.reshape(-1, x.size(-1)), real.reshape(-1, x.size(-1)))
    tracing = torch.jit.is_tracing()
    levels: Tensor = scripted(_path)(*rows, strength, False)[0] if tracing else _Prox.apply(*rows, strength)
    return levels.view_as(x)


def _path(x: Tensor, real: Tensor, strength: float, all_rounds: bool) -> Tuple[Tensor, Tensor]:
    """The levels ``[R, N]``, and the number of each position's group; ``all_rounds`` even if the path has ended."""
    zero = torch.zeros_like(x)
    group = (torch.cumsum(real.long(), 1) - 1).clamp(min=0)
    count = zero.scatter_add(1, group, real.to(x.dtype))
    total = zero.scatter_add(1, group, torch.where(real, x, zero))
    sign = torch.sign(total[:, 1:] - total[:, :-1])  # of the step up to the next group
    pull, level, exists, unfinished, left = zero, zero, count[:, 1:] > 0, True, x.size(1)
    while unfinished:
        sign = torch.where(exists, sign, zero[:, 1:])
        pull = torch.cat([sign, zero[:, :1]], 1) - torch.cat([zero[:, :1], sign], 1)
        size = count.clamp(min=1.0)
        start, slope = total / size, pull / size
        level = start + strength * slope
        rise, closing = start[:, 1:] - start[:, :-1], slope[:, 1:] - slope[:, :-1]
        met = exists & (sign * (rise + strength * closing) <= 0)
        left -= 1
        unfinished = left > 0 if all_rounds else bool(met.any())
        if unfinished:
            # The first event of each row; later ones depend on it. Neighbours that are equal meet at zero.
            moving = (closing != 0) & (sign != 0)
            when = torch.where(moving, -rise / torch.where(moving, closing, torch.ones_like(closing)), zero[:, 1:])
            when = torch.where(met, when, torch.full_like(when, float("inf")))
            apart = exists & ~(met & (when <= when.amin(1, keepdim=True)))
            number = torch.cumsum(torch.cat([torch.zeros_like(group[:, :1]), apart.long()], 1), 1)
            count, total = zero.scatter_add(1, number, count), zero.scatter_add(1, number, total)
            sign = zero[:, 1:].scatter_add(1, number[:, :-1], torch.where(apart, sign, zero[:, 1:]))
            group, exists = number.gather(1, group), count[:, 1:] > 0
    return level.gather(1, group), group


class _Prox(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, real: Tensor, strength: float) -> Tensor:
        levels, group = _path(x, real, strength, on_gpu(x))
        ctx.save_for_backward(real, group)
        return levels

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tuple[Any, ...]:  # type: ignore[override]
        real, group = ctx.saved_tensors
        grad = grad.masked_fill(~real, 0.0)
        zero = torch.zeros_like(grad)
        size = zero.scatter_add(1, group, real.to(grad.dtype)).clamp(min=1.0)
        mean = zero.scatter_add(1, group, grad) / size
        return mean.gather(1, group).masked_fill(~real, 0.0), None, None
