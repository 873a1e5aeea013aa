"""Matrix products inside a recurrent loop. The gradient of the shared matrix is summed once, after the loop.

A recurrent decoder multiplies a new small matrix by the *same* large one (a weight, the source encodings, the attention
keys) at every step. Ordinary backpropagation forms and adds one gradient of the large matrix per step: T small products
and T passes over memory. By the distributive law

    dM = sum_t X_t^T dY_t = [X_1; ...; X_T]^T [dY_1; ...; dY_T]

the same gradient is one large product over all steps. :func:`share` marks a matrix for this.

>>> keys = share(keys)                       # before the loop
>>> scores = matmul_transposed(query, keys)  # in the loop, any number of times

The factors of the sum live on the autograd node that :func:`share` creates, as long as the graph does. Modules keep
nothing.
"""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .precision import autocast_enabled

__all__ = ["linear", "matmul", "matmul_transposed", "share"]


class _Share(Function):
    """Identity. Its backward pass adds the deferred gradients of all products that used its output."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        # Keyed by product: a second backward pass through a retained graph replaces entries and does not double them.
        ctx.products, ctx.task = {}, None
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Optional[Tensor]) -> Optional[Tensor]:
        if ctx.products:
            left, right = (torch.cat(factors, dim=-2) for factors in zip(*ctx.products.values()))
            product = left.transpose(-2, -1) @ right
            grad = product if grad is None else grad + product
        ctx.products.clear()
        return grad


def _record(ctx: Any, left: Tensor, right: Tensor) -> None:
    """Leaves the factors of the gradient of one product on the node of the shared matrix."""
    node = ctx.node
    # A backward pass that does not reach the node leaves its factors there. The next pass must not use them.
    task = torch._C._current_graph_task_id() if hasattr(torch._C, "_current_graph_task_id") else None
    if node.task != task:
        node.products.clear()
        node.task = task
    # detached, because the graph of an input may lead back to the node
    node.products[id(ctx)] = (left.detach(), right.detach())


class _DeferredMatmul(Function):
    """``x @ matrix`` or ``x @ matrix^T``; the :class:`_Share` node of ``matrix`` computes its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, transposed: bool, node: Any) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.transposed, ctx.node = transposed, node
        return x @ (matrix.transpose(-2, -1) if transposed else matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], None, None, None]:
        x, matrix = ctx.saved_tensors
        _record(ctx, *((grad, x) if ctx.transposed else (x, grad)))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        return grad @ (matrix if ctx.transposed else matrix.transpose(-2, -1)), None, None, None


class _DeferredLinear(Function):
    """``base + x @ weight^T`` in one fused product; the :class:`_Share` node of ``weight`` computes its gradient."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, x: Tensor, weight: Tensor, node: Any) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.node = node
        return torch.addmm(base, x, weight.t())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, Optional[Tensor], None, None]:
        x, weight = ctx.saved_tensors
        _record(ctx, grad, x)
        return grad, grad @ weight if ctx.needs_input_grad[1] else None, None, None


def _share_node(matrix: Tensor) -> Any:
    node = matrix.grad_fn
    # Under autocast the operands change type inside the product: torch handles that.
    return node if hasattr(node, "products") and not autocast_enabled(matrix) else None


def share(matrix: Tensor) -> Tensor:
    """Prepares a matrix to be the right operand of many products (see the module's docstring).

    Args:
        matrix: ``[..., N, D]``

    Returns:
        the same values; the tensor itself if no gradient is recorded. Only first derivatives are supported.
    """
    if torch.is_grad_enabled() and matrix.requires_grad:
        return _Share.apply(matrix)
    return matrix


def matmul(x: Tensor, matrix: Tensor) -> Tensor:
    """``x @ matrix``: ``[..., T, N] x [..., N, D] -> [..., T, D]``, leading dimensions equal; see :func:`share`."""
    node = _share_node(matrix)
    return x @ matrix if node is None else _DeferredMatmul.apply(x, matrix, False, node)


def matmul_transposed(x: Tensor, matrix: Tensor) -> Tensor:
    """``x @ matrix^T``: ``[..., T, D] x [..., N, D] -> [..., T, N]``, leading dimensions equal; see :func:`share`."""
    node = _share_node(matrix)
    return x @ matrix.transpose(-2, -1) if node is None else _DeferredMatmul.apply(x, matrix, True, node)


def linear(x: Tensor, weight: Tensor, base: Tensor) -> Tensor:
    """``base + x @ weight^T``: ``[R, I] x [O, I] -> [R, O]``; ``base`` is ``[R, O]``; see :func:`share`."""
    node = _share_node(weight)
    return torch.addmm(base, x, weight.t()) if node is None else _DeferredLinear.apply(base, x, weight, node)
