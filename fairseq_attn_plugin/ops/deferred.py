"""Matrix products inside a recurrent loop whose weight gradients are summed once, after the loop.

A recurrent decoder multiplies a new small matrix by the *same* large one (a weight, the source encodings, the
attention keys) at every step. Ordinary backpropagation then forms and adds one gradient of the large matrix per
step: T small products and T passes over memory. By the distributive law

    dM = sum_t X_t^T dY_t = [X_1; ...; X_T]^T [dY_1; ...; dY_T]

the same gradient is one large product over all steps, which is what :func:`share` arranges.

>>> keys = share(keys)                       # before the loop
>>> scores = matmul_transposed(query, keys)  # in the loop, any number of times

The pieces of the sum live on the autograd node that :func:`share` creates, for as long as the graph does; nothing
is kept on a module.
"""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .precision import autocast_enabled

__all__ = ["linear", "matmul", "matmul_transposed", "share"]


class _Share(Function):
    """Identity whose backward adds the deferred gradients of all products that used its output."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        ctx.set_materialize_grads(False)
        # Keyed by product: a second backward pass through a retained graph replaces entries instead of doubling them.
        ctx.products, ctx.task = {}, None
        return matrix.view_as(matrix)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Optional[Tensor]) -> Optional[Tensor]:
        for left, right in _grouped(ctx.products):
            product = left.transpose(-2, -1) @ right
            grad = product if grad is None else grad + product
        ctx.products.clear()
        return grad


def _record(ctx: Any, left: Tensor, right: Tensor) -> None:
    """Leaves the factors of one product's gradient with the shared matrix's node."""
    node = ctx.node
    # A backward pass that does not reach the node leaves its factors there: they are no part of the next pass.
    task = torch._C._current_graph_task_id() if hasattr(torch._C, "_current_graph_task_id") else None
    if node.task != task:
        node.products.clear()
        node.task = task
    # detached, since an input's own graph may lead back to the node
    node.products[id(ctx)] = (left.detach(), right.detach())


def _grouped(products: Dict[int, Tuple[Tensor, Tensor]]) -> Any:
    if products:
        lefts, rights = zip(*products.values())
        yield torch.cat(lefts, dim=-2), torch.cat(rights, dim=-2)


class _DeferredMatmul(Function):
    """``x @ matrix`` or ``x @ matrix^T``; the gradient of ``matrix`` is left to its :class:`_Share` node."""

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
    """``base + x @ weight^T`` in one fused product; the gradient of ``weight`` is left to its :class:`_Share` node."""

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
    # Under autocast the operands change type inside the product: leave that to torch.
    return node if hasattr(node, "products") and not autocast_enabled(matrix) else None


def share(matrix: Tensor) -> Tensor:
    """Returns ``matrix``, prepared to be the right operand of many products (see the module's text).

    Without gradients this is the tensor itself. Only first derivatives are supported.
    """
    if torch.is_grad_enabled() and matrix.requires_grad:
        return _Share.apply(matrix)
    return matrix


def matmul(x: Tensor, matrix: Tensor) -> Tensor:
    """``x @ matrix``: ``[..., T, N] x [..., N, D] -> [..., T, D]``, with equal leading dimensions."""
    node = _share_node(matrix)
    return x @ matrix if node is None else _DeferredMatmul.apply(x, matrix, False, node)


def matmul_transposed(x: Tensor, matrix: Tensor) -> Tensor:
    """``x @ matrix^T``: ``[..., T, D] x [..., N, D] -> [..., T, N]``, with equal leading dimensions."""
    node = _share_node(matrix)
    return x @ matrix.transpose(-2, -1) if node is None else _DeferredMatmul.apply(x, matrix, True, node)


def linear(x: Tensor, weight: Tensor, base: Tensor) -> Tensor:
    """``base + x @ weight^T``: ``[R, I] x [O, I] -> [R, O]``; ``base`` is ``[R, O]``."""
    node = _share_node(weight)
    return torch.addmm(base, x, weight.t()) if node is None else _DeferredLinear.apply(base, x, weight, node)
