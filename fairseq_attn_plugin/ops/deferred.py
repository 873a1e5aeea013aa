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

A weight is cast to the type of its products where it is shared, or packed at its first product
(:mod:`fairseq_attn_plugin.ops.products`): once for all steps and for both passes. :class:`Linear` shares its weight for
a whole forward pass of the model.
"""

from typing import Any, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .precision import autocast_enabled, fixed_weights, kept_in_pass, product_type
from .products import Prepared, outer


class _Share(Function):
    """Identity, or a cast. Its backward pass adds the deferred gradients of all products that used its output."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, dtype: torch.dtype) -> Tensor:
        ctx.set_materialize_grads(False)
        # Keyed by product: a second backward pass through a retained graph replaces entries and does not double them.
        ctx.products, ctx.task = {}, None
        ctx.dtype, ctx.of_matrix = dtype, matrix.dtype
        if matrix.dim() > 2:  # of every sentence its own; products of one row with it are as fast in float32
            return matrix.view_as(matrix)
        ctx.prepared = Prepared(matrix, dtype)
        return matrix.view_as(matrix) if dtype == matrix.dtype else ctx.prepared.matrix.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Optional[Tensor]) -> Tuple[Optional[Tensor], None]:
        if grad is not None:
            grad = grad.to(ctx.of_matrix)
        if ctx.products:
            factors = list(zip(*ctx.products.values()))
            left, right = (one[0] if len(one) == 1 else torch.cat(one, dim=-2) for one in factors)
            if left.dim() > 2:
                product = left.transpose(-2, -1) @ right
            else:
                product = outer(left, right, ctx.dtype)
            product = product.to(ctx.of_matrix)
            grad = product if grad is None else grad + product
        ctx.products.clear()
        return grad, None


def _record(ctx: Any, left: Tensor, right: Tensor) -> None:
    """Leaves the factors of the gradient of one product on the node of the shared matrix."""
    node = ctx.node
    # A backward pass that does not reach the node leaves its factors there. The next pass must not use them.
    task = torch._C._current_graph_task_id()
    if node.task != task:
        node.products.clear()
        node.task = task
    # detached, because the graph of an input may lead back to the node
    node.products[id(ctx)] = (left.detach(), right.detach())


def _multiply(x: Tensor, matrix: Tensor, transposed: bool, dtype: torch.dtype) -> Tensor:
    """``x @ matrix`` or ``x @ matrix^T`` in the type of ``x``; in half precision if ``x`` has more than one row."""
    if x.size(-2) == 1:
        if not transposed or x.device.type != "cpu":
            return x @ (matrix.transpose(-2, -1) if transposed else matrix)
        return (matrix @ x.transpose(-2, -1)).transpose(-2, -1)  # the same; twice as fast on a processor
    one, other = x.to(dtype), matrix.to(dtype)
    return (one @ (other.transpose(-2, -1) if transposed else other)).to(x.dtype)


class _DeferredMatmul(Function):
    """``x @ matrix`` or ``x @ matrix^T``; the :class:`_Share` node of ``matrix`` computes its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, transposed: bool, node: Any) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.transposed, ctx.node = transposed, node
        return _multiply(x, matrix, transposed, node.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], None, None, None]:
        x, matrix = ctx.saved_tensors
        _record(ctx, *((grad, x) if ctx.transposed else (x, grad)))
        if not ctx.needs_input_grad[0]:
            return None, None, None, None
        return _multiply(grad, matrix, not ctx.transposed, ctx.node.dtype), None, None, None


class _Accumulated(Function):
    """``base + x @ matrix^T``, written into ``base``, whose gradient is that of the result."""

    @staticmethod
    def forward(ctx: Any, base: Tensor, x: Tensor, matrix: Tensor, node: Any) -> Tensor:
        ctx.save_for_backward(x, matrix)
        ctx.node = node
        result, transposed = base.data, matrix.transpose(-2, -1)  # other parts of a larger tensor stay as they were
        return result.addmm_(x, transposed) if x.dim() == 2 else result.baddbmm_(x, transposed)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Tensor, Optional[Tensor], None, None]:
        x, matrix = ctx.saved_tensors
        _record(ctx, grad, x)
        return grad, grad @ matrix if ctx.needs_input_grad[1] else None, None, None


class _DeferredLinear(Function):
    """``base + x @ weight^T``; the :class:`_Share` node of ``weight`` computes its gradient."""

    @staticmethod
    def forward(ctx: Any, base: Optional[Tensor], x: Tensor, weight: Tensor, dtype: torch.dtype, node: Any) -> Tensor:
        rows = x.to(weight.dtype)
        ctx.save_for_backward(rows)
        ctx.node, ctx.dtype = node, x.dtype
        ctx.base = None if base is None else (base.dim(), base.dtype)
        product: Tensor = node.prepared.linear(rows, base)
        return product.to(dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tuple[Optional[Tensor], Optional[Tensor], None, None, None]:
        (rows,) = ctx.saved_tensors
        of_rows = grad.to(rows.dtype)
        _record(ctx, of_rows, rows)
        d_base = d_x = None
        if ctx.needs_input_grad[0]:
            dim, dtype = ctx.base
            d_base = grad.sum(0).to(dtype) if dim == 1 else grad.to(dtype)
        if ctx.needs_input_grad[1]:
            d_x = ctx.node.prepared.matmul(of_rows).to(ctx.dtype)
        return d_base, d_x, None, None, None


def _share_node(matrix: Tensor) -> Any:
    node = matrix.grad_fn
    # Under autocast the operands change type inside the product: torch handles that.
    return node if hasattr(node, "products") and not autocast_enabled(matrix) else None


def share(matrix: Tensor, dtype: Optional[torch.dtype] = None) -> Tensor:
    """Prepares a matrix to be the right operand of many products (see the module's docstring).

    Args:
        matrix: ``[..., N, D]``; a weight is ``[N, D]``
        dtype: the type of the products (default: :func:`~fairseq_attn_plugin.ops.precision.product_type`)

    Returns:
        the same values, a weight in the type of the products; the tensor itself if no gradient is recorded. Only first
        derivatives are supported.
    """
    if torch.is_grad_enabled() and matrix.requires_grad:
        if dtype is None:
            dtype = matrix.dtype if autocast_enabled(matrix) else product_type(matrix)
        return _Share.apply(matrix, dtype)
    return matrix


def matmul(x: Tensor, matrix: Tensor) -> Tensor:
    """``x @ matrix``: ``[..., T, N] x [..., N, D] -> [..., T, D]``, leading dimensions equal; see :func:`share`."""
    node = _share_node(matrix)
    return x @ matrix if node is None else _DeferredMatmul.apply(x, matrix, False, node)


def matmul_transposed(x: Tensor, matrix: Tensor) -> Tensor:
    """``x @ matrix^T``: ``[..., T, D] x [..., N, D] -> [..., T, N]``, leading dimensions equal; see :func:`share`."""
    node = _share_node(matrix)
    return x @ matrix.transpose(-2, -1) if node is None else _DeferredMatmul.apply(x, matrix, True, node)


def accumulate(base: Tensor, x: Tensor, matrix: Tensor) -> Tensor:
    """``base + x @ matrix^T`` in one launch where it can be written into ``base``, which nobody reads afterwards.

    Args:
        base: ``[..., R, O]``; may be a part of a larger tensor
        x: ``[..., R, I]``
        matrix: ``[..., O, I]``, see :func:`share`
    """
    node = _share_node(matrix)
    if node is None or not base.dtype == x.dtype == matrix.dtype:
        return base + x @ matrix.transpose(-2, -1)
    return _Accumulated.apply(base, x, matrix, node)


def linear(x: Tensor, weight: Tensor, base: Optional[Tensor] = None, dtype: Optional[torch.dtype] = None) -> Tensor:
    """``base + x @ weight^T``: ``[R, I] x [O, I] -> [R, O]``; see :func:`share`.

    Args:
        x: ``[R, I]``
        weight: ``[O, I]``
        base: ``[R, O]`` or ``[O]``
        dtype: type of the result (default: that of ``x``)
    """
    node = _share_node(weight)
    if node is not None:
        return _DeferredLinear.apply(base, x, weight, x.dtype if dtype is None else dtype, node)
    if base is None or base.dim() == 1:
        return multiply(x, weight, base)
    if fixed_weights() is not None or torch.onnx.is_in_onnx_export():
        return multiply(x, weight, None) + base
    return torch.addmm(base, x, weight.t())


def multiply(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``x @ weight^T + bias``, ``[..., I]`` to ``[..., O]``: torch's own, or in a search that of its
    :func:`~fairseq_attn_plugin.ops.precision.fixed_weights`."""
    fixed = fixed_weights()
    if torch.onnx.is_in_onnx_export():
        # Of two dimensions, then the bias: onnxruntime joins both in float32, and quantises such a product correctly
        # where its weight has other uses.
        rows = x if x.dim() == 2 else x.reshape(-1, int(x.size(-1)))
        product = rows @ weight.t() if bias is None else rows @ weight.t() + bias
        return product if x.dim() == 2 else product.view(*x.shape[:-1], len(weight))
    if fixed is None:
        return F.linear(x, weight, bias)
    y: Tensor = fixed.multiply(x.reshape(-1, x.size(-1)), weight, bias)
    return y if x.dim() == 2 else y.view(*x.shape[:-1], -1)


class Linear(nn.Linear):
    """``torch.nn.Linear`` whose products are those of this module."""

    def forward(self, x: Tensor) -> Tensor:
        return project(x, self.weight, self.bias)


def project(x: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor:
    """``x @ weight^T + bias``, ``[..., I]`` to ``[..., O]`` in the type of ``x``; all calls in one forward pass of the
    model :func:`share` the weight."""
    weight = kept_in_pass(weight, share)
    if x.dim() == 2 or _share_node(weight) is None:
        return linear(x, weight, bias)
    return linear(x.reshape(-1, x.size(-1)), weight, bias).view(*x.shape[:-1], -1)
