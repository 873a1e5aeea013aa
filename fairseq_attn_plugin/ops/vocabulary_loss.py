"""Cross-entropy over a large vocabulary, without holding the logits of all words.

With features o_t, logits z_t = W o_t + b and label smoothing epsilon, e = epsilon / (V - 1), the loss of fairseq's
``label_smoothed_cross_entropy`` is

    loss = -sum_t (1 - epsilon - e) log p(y_t) + e sum_v log p_t(v),     p_t = softmax(z_t)
    d loss / d z_t = p_t - (1 - epsilon - e) onehot(y_t) - e

A block of rows holds everything that its share of the loss depends on. The gradients are computed together with its
logits, which are then overwritten. This takes three products with the vocabulary matrix, as many as backpropagation
through all logits, and the memory of one block.

Few passes over a block are needed besides its products. With exponentials E_tv = exp z_tv and S_t = sum_v E_tv

    d loss / d o_t = (E_t - (1 - epsilon - e) S_t onehot(y_t)) W / S_t - e sum_v W_v

and the same for W and b: the division and the uniform part apply to the small operands of the products. The logits come
as z log2 e from their product, because a processor computes 2^x several times faster than e^x. They are not shifted by
their maximum, unless a sum S_t is out of the safe range.
"""

from __future__ import annotations

import math
from typing import Any, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from .precision import float16_scale, product_type, without_autocast
from .products import Prepared, outer

__all__ = ["Targets", "VocabularyLoss", "vocabulary_loss"]

LOG2_E = math.log2(math.e)
# Logits held at a time: on a processor in its cache; a GPU is filled. With fewer rows the products would be slow.
BLOCK_BYTES = {"cpu": 16 << 20, "cuda": 256 << 20}
MIN_ROWS = 256
# Sums of exponentials that neither overflow nor miss a word that counts
SAFE_SUMS = (1e-18, 1e36)


class Targets(NamedTuple):
    """The words whose loss is wanted, and how."""

    words: Tensor  # [...], y
    pad: int  # words of this index have no loss
    smoothing: float = 0.0  # epsilon
    correct: bool = False  # whether to count the words that are the most probable ones


class VocabularyLoss(NamedTuple):
    """Sums over all words."""

    loss: Tensor  # scalar, differentiable, with label smoothing
    nll: Tensor  # scalar, no gradient: -sum_t log p(y_t)
    correct: Optional[Tensor]  # number of words that are the most probable ones, where it is wanted


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
    ) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        products = product_type(features)  # autocast's, which is off inside
        with without_autocast(features):
            sums = _Sums(features, weight, bias, targets, products, grad_enabled and any(ctx.needs_input_grad[:3]))
            sums.add_all()
        ctx.gradients = sums.gradients() if sums.with_gradients else None
        ctx.types = features.dtype, weight.dtype, None if bias is None else bias.dtype
        nll = sums.nll.clone() if sums.loss is sums.nll else sums.nll
        constants = (nll,) if sums.correct is None else (nll, sums.correct)
        ctx.mark_non_differentiable(*constants)
        return sums.loss, nll, sums.correct

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


class _Sums:
    """The sums over blocks of rows, and their gradients in float32 or better."""

    def __init__(
        self,
        features: Tensor,
        weight: Tensor,
        bias: Optional[Tensor],
        targets: Targets,
        products: torch.dtype,
        with_gradients: bool,
    ):
        self.shape, self.with_gradients, self.products = features.shape, with_gradients, products
        self.full = torch.float64 if features.dtype == torch.float64 else torch.float32
        flat, words = features.reshape(-1, features.size(-1)), targets.words.reshape(-1)
        real = words.ne(targets.pad)
        self.rows = None if bool(real.all()) else real.nonzero().squeeze(1)  # no product is wasted on padding
        self.features = flat if self.rows is None else flat.index_select(0, self.rows)
        self.words = words if self.rows is None else words.index_select(0, self.rows)
        self.weight = weight
        self.bias = None if bias is None else bias.to(self.full) * LOG2_E
        self.uniform = targets.smoothing / (len(weight) - 1) if targets.smoothing else 0.0
        self.gold = 1.0 - targets.smoothing - self.uniform if targets.smoothing else 1.0
        self.weight_sum = weight.sum(0, dtype=self.full) if self.uniform else None
        self.bias_sum = 0.0 if bias is None or not self.uniform else bias.sum(dtype=self.full)
        self.correct = words.new_zeros(()) if targets.correct else None
        # A GPU would have to wait for the test of the sums.
        self.shifts = weight.device.type != "cpu" or products == torch.float16
        self.nll = weight.new_zeros((), dtype=self.full)
        self.loss = self.nll
        if with_gradients:
            self._make_gradients(len(weight), bias is not None)

    def _make_gradients(self, size: int, with_bias: bool) -> None:
        self.d_features = self.features.new_empty(self.features.shape, dtype=self.full)
        total = self.features.sum(0, dtype=self.full).mul_(-self.uniform)  # of the uniform part; zero without it
        self.d_weight = total.expand(size, -1).contiguous()
        self.d_bias = total.new_full((size,), -self.uniform * len(self.words)) if with_bias else None

    def add_all(self) -> None:
        """Adds all words, block by block."""
        rows, size = len(self.words), len(self.weight)
        device = "cpu" if self.weight.device.type == "cpu" else "cuda"
        limit = max(MIN_ROWS, BLOCK_BYTES[device] // (size * self.full.itemsize))
        at_once = math.ceil(rows / max(1, math.ceil(rows / limit)))  # blocks of equal size
        self.prepared = Prepared(self.weight, self.products, at_once)
        norms = []
        for start in range(0, rows, max(1, at_once)):
            norms.append(self._add(slice(start, min(rows, start + at_once))))
        if self.uniform and rows:
            assert self.weight_sum is not None
            of_all = (
                size * torch.cat(norms).sum() - (self.features.to(self.full) @ self.weight_sum + self.bias_sum).sum()
            )
            self.loss = self.gold * self.nll + self.uniform * of_all
            if self.with_gradients:
                self.d_features.sub_(self.uniform * self.weight_sum)

    def _add(self, part: slice) -> Tensor:
        """Adds a block of rows; returns log S ``[r]``."""
        features, words = self.features[part], self.words[part].unsqueeze(1)
        logits = self._logits(features)
        if self.correct is not None:
            self.correct += logits.argmax(1, keepdim=True).eq(words).sum()
        gold = logits.gather(1, words)
        peak = logits.amax(1, keepdim=True) if self.shifts else None
        norm = self._exponentiate(logits, peak)
        if peak is None and not _safe(norm):
            logits = self._logits(features)
            peak = logits.amax(1, keepdim=True)
            norm = self._exponentiate(logits, peak)
        log_norm = norm.log2() if peak is None else norm.log2().add_(peak)
        self.nll += (log_norm - gold).sum() / LOG2_E
        if self.with_gradients:
            logits.scatter_add_(1, words, -self.gold * norm)
            self._add_gradients(part, logits, norm)
        return log_norm.squeeze(1).div_(LOG2_E)

    def _logits(self, features: Tensor) -> Tensor:
        """Logits times log2 e, in full precision."""
        logits = self.prepared.linear(features.to(self.full) * LOG2_E).to(self.full)
        return logits if self.bias is None else logits.add_(self.bias)

    @staticmethod
    def _exponentiate(logits: Tensor, peak: Optional[Tensor]) -> Tensor:
        """Overwrites the logits by their exponentials; returns the sums of these ``[r, 1]``."""
        return (logits if peak is None else logits.sub_(peak)).exp2_().sum(1, keepdim=True)

    def _add_gradients(self, part: slice, numerators: Tensor, norm: Tensor) -> None:
        """Adds the gradients of a block whose logits have the gradients ``numerators / norm``."""
        features, inverse = self.features[part], norm.reciprocal()
        if self.d_bias is not None:
            self.d_bias.addmv_(numerators.t(), inverse.squeeze(1))
        if self.products == torch.float16:  # its products need numbers in [-1, 1], most of which are small
            scale = float16_scale(len(features))
            narrow, inverse = numerators.mul_(inverse * scale).to(self.products), inverse.fill_(1 / scale)
            self.d_weight.add_(outer(narrow, features, self.products), alpha=1 / scale)
        else:
            narrow = numerators.to(self.products)
            self.d_weight.add_(outer(narrow, features * inverse, self.products))
        torch.mul(self.prepared.matmul(narrow), inverse, out=self.d_features[part])

    def gradients(self) -> Tuple[Tensor, Tensor, Optional[Tensor]]:
        """The gradients of features, weight and bias."""
        d_features = self.d_features
        if self.rows is not None:
            padded = d_features.new_zeros(math.prod(self.shape[:-1]), d_features.size(1))
            d_features = padded.index_copy_(0, self.rows, d_features)
        return d_features.view(self.shape), self.d_weight, self.d_bias


def _safe(norm: Tensor) -> bool:
    """Whether no sum of exponentials is near overflow or underflow."""
    return bool(((norm > SAFE_SUMS[0]) & (norm < SAFE_SUMS[1])).all())
