"""Cross-entropy over a large vocabulary, without holding the logits of all words.

With features o_t, logits z_t = W o_t + b and label smoothing epsilon, e = epsilon / (V - 1), the loss of fairseq's
``label_smoothed_cross_entropy`` is

    loss = -sum_t (1 - epsilon - e) log p(y_t) + e sum_v log p_t(v),     p_t = softmax(z_t)
    d loss / d z_t = p_t - (1 - epsilon - e) onehot(y_t) - e

A block of rows holds everything that its share of the loss depends on. The gradients are computed together with its
logits (:mod:`.vocabulary_blocks`), which are then overwritten. This takes three products with
the vocabulary matrix, as many as backpropagation through all logits, and the memory of one block.
"""

from __future__ import annotations

import math
from itertools import repeat
from typing import Any, Iterable, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..devices import on_gpu
from ..precision import product_type, without_autocast
from .alignment_blocks import rows_of_a_block
from .vocabulary_blocks import VocabularyBlocks

__all__ = ["Targets", "VocabularyLoss", "vocabulary_loss"]

# Rows of a block at least: with fewer, adding to the gradient of the matrix costs as much as the products.
MIN_ROWS = 256


class Targets(NamedTuple):
    """The words whose loss is wanted, and how."""

    words: Tensor  # [...], y
    pad: int  # words of this index have no loss
    smoothing: float = 0.0  # epsilon


class VocabularyLoss(NamedTuple):
    """Sums over all words."""

    loss: Tensor  # scalar, differentiable, with label smoothing
    nll: Tensor  # scalar, no gradient: -sum_t log p(y_t)


def vocabulary_loss(features: Tensor, weight: Tensor, bias: Optional[Tensor], targets: Targets) -> VocabularyLoss:
    """The loss of the module's docstring.

    Args:
        features: ``[..., F]``
        weight: ``[V, F]``
        bias: ``[V]`` or None
        targets: words of the shape ``[...]``

    Returns:
        sums in float32, or in float64 for such features. First derivatives go to features, weight and bias; a scalar
        is returned, because the backward pass only scales the gradients of the forward pass. The products have
        autocast's precision if it is on.
    """
    # Inside a Function parameters look as if they needed gradients even under no_grad.
    return VocabularyLoss(*_Blockwise.apply(features, weight, bias, targets, torch.is_grad_enabled()))


class _Blockwise(Function):
    @staticmethod
    def forward(
        ctx: Any, features: Tensor, weight: Tensor, bias: Optional[Tensor], targets: Targets, grad_enabled: bool
    ) -> Tuple[Tensor, Tensor]:
        words = targets.words.reshape(-1)
        real = words.ne(targets.pad)
        flat = features.reshape(-1, features.size(-1))
        rows: Optional[Tensor] = None
        if not on_gpu(words) and not bool(real.all()):  # no product is wasted on padding
            rows = real.nonzero().squeeze(1)
            flat, words = flat.index_select(0, rows), words.index_select(0, rows)
        at_once = _rows_at_a_time(len(words), weight)
        wanted = grad_enabled and any(ctx.needs_input_grad[:3])
        products = product_type(features)  # autocast's, which is off inside
        with without_autocast(features):
            blocks = VocabularyBlocks(weight, bias, targets.smoothing, products, wanted)
            loss, nll = weight.new_zeros(2, dtype=blocks.full).unbind()
            d_features = []
            counted: Iterable[Optional[Tensor]] = repeat(None)
            if on_gpu(words):  # the host does not know which rows are padding: they are computed, with the weight 0
                counted = real.to(blocks.full).split(at_once)
            for x, y, share in zip(flat.split(at_once), words.split(at_once), counted):
                block = blocks.exponentials(x, y)
                score, log_likelihood = block.score, block.log_likelihood
                if share is not None:
                    score, log_likelihood = score * share, log_likelihood * share
                loss, nll = loss - score.sum(), nll - log_likelihood.sum()
                if wanted:
                    d_features.append(blocks.add_gradients(block, x, y, share))
            if wanted:
                d_flat = torch.cat(d_features)
                if rows is not None:
                    padded = d_flat.new_zeros(targets.words.numel(), d_flat.size(1))
                    d_flat = padded.index_copy_(0, rows, d_flat)
                ctx.gradients = (d_flat.view(features.shape), *blocks.finish())
        ctx.types = features.dtype, weight.dtype, None if bias is None else bias.dtype
        ctx.mark_non_differentiable(nll)
        return loss, nll

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, *unused: Any) -> Tuple[Optional[Tensor], ...]:
        gradients: List[Optional[Tensor]] = []
        kept = _keeps_graph()
        # In full precision until they are scaled: the range of half precision is for gradients of a scaled loss.
        for value, dtype, needed in zip(ctx.gradients, ctx.types, ctx.needs_input_grad):
            if value is None or not needed:
                gradients.append(None)
            else:
                gradients.append((value * grad if kept else value.mul_(grad)).to(dtype))
        if not kept:
            ctx.gradients = None  # the parameters take the tensors as their gradients
        return (*gradients, None, None)


def _keeps_graph() -> bool:
    """Whether the running backward pass may be followed by another one over the same graph."""
    asked = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return True if asked is None else bool(asked())


def _rows_at_a_time(rows: int, weight: Tensor) -> int:
    """The number of rows of a block, so that all blocks have nearly the same size, and shapes return."""
    limit = max(MIN_ROWS, rows_of_a_block(weight, 4 * len(weight)))
    even = math.ceil(rows / max(1, math.ceil(rows / limit)))
    return max(1, even if even <= 256 else math.ceil(even / 64) * 64)
