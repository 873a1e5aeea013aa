"""Cross-entropy over a large vocabulary, without holding the logits of all words.

A block of rows holds everything that its share of the loss depends on. The gradients are computed together with its
logits, which are then overwritten. This takes three products with the vocabulary matrix, as many as backpropagation
through all logits, and the memory of one block.

With features o_r, logits z_r = W o_r + b, exponentials E_rv = exp z_rv, S_r = sum_v E_rv, label smoothing epsilon and
e = epsilon / (V - 1), a sum of smoothed log-likelihoods with weights w_r has the gradients

    L = -sum_r w_r [(1 - epsilon - e) log p_r(y_r) + e sum_v log p_r(v)],     p_r(v) = E_rv / S_r
    dL / dz_r = w_r [p_r - (1 - epsilon - e) onehot(y_r) - e]
    dL / do_r = w_r / S_r (E_r - (1 - epsilon - e) S_r onehot(y_r)) W - w_r e sum_v W_v

and the same for W and b; with w_r = 1 L is the loss of fairseq's ``label_smoothed_cross_entropy``. Few passes over a
block are needed besides its products: division, weights and the uniform part apply to the small operands of the
products. The logits come as z log2 e from their product, because a processor computes 2^x several times faster than
e^x. They are not shifted by their maximum, unless a sum S_r is out of the safe range.
"""

import math
from itertools import repeat
from typing import Any, Dict, Iterable, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from ..devices import on_gpu
from ..precision import product_type, without_autocast
from ..products import Prepared, outer
from .alignment_blocks import rows_of_a_block

# Rows of a block at least: with fewer, adding to the gradient of the matrix costs as much as the products.
MIN_ROWS = 512
LOG2_E = math.log2(math.e)
# Sums of exponentials that neither overflow nor miss a word that counts
SAFE_SUMS = (1e-18, 1e36)


class Exponentials(NamedTuple):
    """The words of a block, in full precision."""

    values: Tensor  # [r, V], exp(logits), perhaps shifted by the maximum; the next block may overwrite them
    norm: Tensor  # [r, 1], their sums
    log_likelihood: Tensor  # [r], log p(y)
    score: Tensor  # [r], the same with label smoothing


class VocabularyBlocks:
    """The projection to the vocabulary, and the gradients of its parameters summed over blocks.

    Args:
        weight: ``[V, F]``
        bias: ``[V]`` or None
        smoothing: epsilon
        products: type of the products
        gradients: whether gradients are wanted

    Attributes:
        full: float32, or float64 for such a matrix: the type of everything but the products
    """

    def __init__(
        self,
        weight: Tensor,
        bias: Optional[Tensor],
        smoothing: float,
        products: torch.dtype,
        gradients: bool,
    ):
        self.full = torch.float64 if weight.dtype == torch.float64 else torch.float32
        self.size, self.products = len(weight), products
        self.prepared = Prepared(weight, products)
        self.bias = None if bias is None else (bias.to(self.full) * LOG2_E).to(products)
        self._memory: Dict[torch.dtype, Tensor] = {}
        self.uniform = smoothing / (self.size - 1) if smoothing else 0.0
        self.gold = 1.0 - smoothing - self.uniform if smoothing else 1.0
        # A GPU would have to wait for the test of the sums.
        self.shifts = weight.device.type != "cpu" or products == torch.float16
        if self.uniform:
            self.weight_sum = weight.sum(0, dtype=self.full)
            self.bias_sum = 0.0 if bias is None else bias.sum(dtype=self.full)
            self.features_sum = torch.zeros_like(self.weight_sum)
            self.weights_sum = weight.new_zeros((), dtype=self.full)
        # Transposed: its products then need no transposed copy of a block.
        self.d_transposed = weight.new_zeros(weight.size(1), weight.size(0), dtype=self.full) if gradients else None
        self.d_bias = torch.zeros_like(bias, dtype=self.full) if gradients and bias is not None else None

    def exponentials(self, features: Tensor, words: Tensor) -> Exponentials:
        """The exponentials of a block.

        Args:
            features: ``[r, F]``
            words: ``[r]``, y
        """
        words = words.unsqueeze(1)
        logits = self._logits(features)
        gold = logits.gather(1, words)
        peak = logits.amax(1, keepdim=True) if self.shifts else None
        norm = _exponentiate(logits, peak)
        if peak is None and not bool(((norm > SAFE_SUMS[0]) & (norm < SAFE_SUMS[1])).all()):
            logits = self._logits(features)
            peak = logits.amax(1, keepdim=True)
            norm = _exponentiate(logits, peak)
        log_norm = norm.log2() if peak is None else norm.log2().add_(peak)
        score = log_likelihood = (gold - log_norm).squeeze(1).div_(LOG2_E)
        if self.uniform:
            of_all = features.to(self.full) @ self.weight_sum + self.bias_sum
            score = self.gold * log_likelihood + self.uniform * (of_all - log_norm.squeeze(1) * (self.size / LOG2_E))
        return Exponentials(logits, norm, log_likelihood, score)

    def _logits(self, features: Tensor) -> Tensor:
        """Logits times log2 e, in full precision."""
        return self._cast(self.prepared.linear(features.to(self.full) * LOG2_E, self.bias), self.full)

    def _cast(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """``[r, V]`` in a type, if it is another one in memory that all blocks share: new memory is slow."""
        if values.dtype == dtype:
            return values
        memory = self._memory.get(dtype)
        if memory is None or len(memory) < len(values):
            memory = self._memory[dtype] = torch.empty_like(values, dtype=dtype)
        return memory[: len(values)].copy_(values)

    def add_gradients(
        self, block: Exponentials, features: Tensor, words: Tensor, weights: Optional[Tensor] = None
    ) -> Tensor:
        """Adds to the gradients of W and b; overwrites the exponentials.

        Args:
            block: the exponentials of ``features`` and ``words``
            weights: ``[r]``, w; None: ones

        Returns:
            the gradient of the features ``[r, F]``, in full precision
        """
        assert self.d_transposed is not None
        numerators, features = block.values, features.to(self.full)
        numerators.scatter_add_(1, words.unsqueeze(1), -self.gold * block.norm)
        factor = block.norm.reciprocal() if weights is None else weights.unsqueeze(1) / block.norm
        if self.d_bias is not None:
            self.d_bias.addmv_(numerators.t(), factor.squeeze(1))
        if self.products == torch.float16:  # its products need numbers in [-1, 1], most of which are small
            # the largest power of two, 1024 at most, with which a sum over the rows stays in the range of float16
            scale = 2.0 ** max(-4, min(10, int(math.log2(32768 / max(1, len(features))))))
            narrow, factor = numerators.mul_(factor * scale).to(self.products), factor.fill_(1 / scale)
            self.d_transposed.add_(outer(features, narrow, self.products), alpha=1 / scale)
        else:
            narrow = self._cast(numerators, self.products)
            product = outer(features * factor, narrow, self.products)
            if product.device.type == "cpu":  # a GPU casts while it adds, a processor into new memory
                product = self._cast(product, self.full)
            self.d_transposed.add_(product)
        d_features = self.prepared.matmul(narrow).to(self.full).mul_(factor)
        if self.uniform:
            share = factor.new_ones(len(features)) if weights is None else weights
            self.features_sum.addmv_(features.t(), share)
            self.weights_sum.add_(share.sum())
            d_features.addr_(share, self.weight_sum, alpha=-self.uniform)
        return d_features

    def finish(self) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """The gradients of W and b, at the end; no other method may follow."""
        if self.d_transposed is None:
            return None, None
        del self.prepared
        self._memory.clear()
        if self.uniform:
            self.d_transposed.sub_(self.uniform * self.features_sum.unsqueeze(1))
            if self.d_bias is not None:
                self.d_bias.sub_(self.uniform * self.weights_sum)
        return self.d_transposed.t().contiguous(), self.d_bias


def _exponentiate(logits: Tensor, peak: Optional[Tensor]) -> Tensor:
    """Overwrites logits times log2 e ``[r, V]``, less ``peak`` ``[r, 1]``, by their exponentials; returns the sums of
    these ``[r, 1]``."""
    return (logits if peak is None else logits.sub_(peak)).exp2_().sum(1, keepdim=True)


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
        limit = max(MIN_ROWS, rows_of_a_block(weight, 4 * len(weight)))
        # all blocks have nearly the same size, and one of few sizes, which a later batch has again
        even = math.ceil(len(words) / max(1, math.ceil(len(words) / limit)))
        at_once = max(1, even if even <= 256 else math.ceil(even / 64) * 64)
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
        kept = torch._C._autograd._get_current_graph_task_keep_graph()  # another backward pass may follow
        # In full precision until they are scaled: the range of half precision is for gradients of a scaled loss.
        gradients = [
            None if value is None or not needed else (value * grad if kept else value.mul_(grad)).to(dtype)
            for value, dtype, needed in zip(ctx.gradients, ctx.types, ctx.needs_input_grad)
        ]
        if not kept:
            ctx.gradients = None  # the parameters take the tensors as their gradients
        return (*gradients, None, None)
