"""Alignments whose logits are a sum of a part of the step and a part of the position.

With a linear output layer, o_tj = [h_j; s_t] (:mod:`.alignment_blocks`), the logits are
a_t + b_j with a_t = W_s s_t + b and b_j = W_h h_j. The exponentials of all T x N pairs are then products of T + N rows
of exponentials, and sums over the vocabulary or over the alignments are products of matrices with N or T columns:

    Z_tj = sum_v exp(a_tv) exp(b_jv),     log p(y_t | j) = a_ty + b_jy - log Z_tj
    sum_j w_tj p(v | j) = exp(a_tv) sum_j (w_tj / Z_tj) exp(b_jv)

For L = -sum_tj w_tj log p(y_t | j):

    dL / da_tv = exp(a_tv) sum_j (w_tj / Z_tj) exp(b_jv) - [v = y_t] sum_j w_tj
    dL / db_jv = exp(b_jv) sum_t (w_tj / Z_tj) exp(a_tv) - sum_t [v = y_t] w_tj

All alignments of a sentence cost T + N projections to the vocabulary, and 3 T N V multiplications, instead of T N
projections. Both parts are shifted by their maxima. If one sum Z_tj is then so small that words that count may have
been lost, all pairs are computed one by one instead.
"""

from typing import NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..deferred import matmul_transposed, share
from ..precision import without_autocast
from ..products import Prepared, outer
from .alignment_blocks import Alignments, Block, block_masks, blocks_of
from .first_order import LOG_ZERO
from .nll_sums import NLLSums, SumKind
from .vocabulary_loss import LOG2_E, SAFE_SUMS

EXPONENTIALS_BYTES = 512 << 20  # of the positions of a batch; a search keeps none that are larger


class Part(NamedTuple):
    """The exponentials of one part of the logits: exp(z - peak), or 2^(z - peak) of logits in units of log 2."""

    values: Tensor  # [..., R, V]
    peak: Tensor  # [..., R]


def exponentials_of(logits: Tensor) -> Part:
    """The exponentials of logits times log2 e, which are overwritten."""
    peak = logits.amax(-1)
    return Part(logits.sub_(peak.unsqueeze(-1)).exp2_(), peak)


def shared_exponentials(logits: Tensor) -> Part:
    """The exponentials of the positions' logits ``[B, N, V]``, differentiable, for any number of steps."""
    peak = logits.detach().amax(-1)
    return Part(share((logits - peak.unsqueeze(-1)).exp()), peak)


def log_posterior_of(log_prior: Tensor, logits: Tensor, words: Tensor, positions: Part) -> Tuple[Tensor, Tensor]:
    """log p(j) p(y | j) of one word y of each row, up to a term that is the same for all j; differentiable.

    a_y is such a term, so that what is left of log p(y | j) is b_jy - log Z_j.

    Args:
        log_prior: ``[B, M, N]``, log p(j)
        logits: ``[B, M, V]``, a
        words: ``[B, M, N]``, b_jy
        positions: of :func:`shared_exponentials`

    Returns:
        ``[B, M, N]``, and the least Z of shifted exponentials: below ``SAFE_SUMS`` words that count may have been lost
    """
    with without_autocast(logits):  # float16 could hold neither small sums nor their gradients
        norm = matmul_transposed((logits - logits.detach().amax(-1, keepdim=True)).exp(), positions.values)
    return log_prior + (words - positions.peak.unsqueeze(1)) - norm.log(), norm.detach().min()


def log_mixture_of(logits: Tensor, log_weights: Tensor, positions: Tensor) -> Tuple[Tensor, Tensor]:
    """log sum_j w_j p(v | j) of all words v, differentiable.

    Args:
        logits: ``[B, T, V]``, a
        log_weights: ``[B, T, N]``, log w; very negative on padding
        positions: ``[B, N, V]``, exp(b), each row with any factor of its own

    Returns:
        the result ``[B, T, V]``, and the sums Z of the shifted exponentials ``[B, T, N]``: the result is only right
        where they are safe
    """
    shifted = logits - logits.detach().amax(-1, keepdim=True)
    norm = shifted.exp() @ positions.transpose(1, 2)
    # Probabilities below about 1e-20 may come out too small.
    tiny = torch.finfo(norm.dtype).tiny
    shares = log_weights.to(norm.dtype).exp() / norm.clamp(min=tiny)
    return shifted + (shares @ positions).clamp(min=tiny).log(), norm


def spread(weights: Tensor, index: Tensor, size: int, logs: bool = False) -> Tensor:
    """The weights of chosen positions as weights of all positions, differentiable.

    Args:
        weights: ``[..., B, T, K]``
        index: ``[B, T, K]``
        size: N
        logs: whether ``weights`` and the result are logarithms

    Returns:
        ``[..., B, T, N]``; where a position is chosen several times, its weights are added
    """
    if logs:
        peak = weights.detach().amax(-1, keepdim=True)
        sums = spread((weights - peak).exp(), index, size)
        return torch.where(sums > 0, sums.clamp(min=torch.finfo(sums.dtype).tiny).log() + peak, LOG_ZERO)
    sums = weights.new_zeros(*weights.shape[:-1], size)
    for one in range(index.size(-1)):  # one by one: the order of a sum is then the same in every run, on a GPU too
        row = slice(one, one + 1)
        sums = sums.scatter_add(-1, index[..., row].expand_as(weights[..., row]), weights[..., row])
    return sums


class UnsafeSums(ArithmeticError):
    """Words that count may have been lost in a sum of exponentials."""


class SeparableSums(NLLSums):
    """:class:`~fairseq_attn_plugin.ops.likelihoods.nll_sums.NLLSums` for all positions of separable alignments.

    Attributes:
        lowest: the least Z of the blocks so far, of shifted exponentials, or 1

    Raises:
        UnsafeSums: by :meth:`add_all`
    """

    def __init__(
        self, alignments: Alignments, weights: Tensor, kind: SumKind, product_type: torch.dtype, gradients: bool
    ):
        if product_type == torch.float16:  # its products would need scaling, and there are few of them
            product_type = torch.float32
        super().__init__(alignments, weights, kind, product_type, gradients)
        matrix, split = self.vocabulary.prepared.matrix, alignments.split
        self.of_positions, self.of_steps = (
            Prepared(part, product_type) for part in (matrix[:, :split], matrix[:, split:])
        )
        self.lowest = matrix.new_ones((), dtype=self.full)

    def add_all(self) -> None:
        for block in blocks_of(self.alignments, separable=True):
            self.add(block)
        if not self.lowest > SAFE_SUMS[0]:  # once, because a GPU has to wait for it
            raise UnsafeSums

    def add(self, block: Block) -> None:
        split, vocabulary = self.alignments.split, self.vocabulary
        assert self.alignments.memory is not None
        memory = self.alignments.memory[block.sentences, block.positions, :split].to(self.full)
        query = self.alignments.query[block.sentences, block.steps, split:].to(self.full)
        target = self.alignments.target[block.sentences, block.steps]
        a, b = self._logits(self.of_steps, query, vocabulary.bias), self._logits(self.of_positions, memory, None)
        of_words = b.gather(2, target.unsqueeze(1).expand(-1, b.size(1), -1))  # [b, k, t]
        gold = a.gather(2, target.unsqueeze(2)) + of_words.transpose(1, 2)
        steps, positions = exponentials_of(a), exponentials_of(b)
        norm = steps.values @ positions.values.transpose(1, 2)  # [b, t, k]
        real, present = block_masks(self.alignments, block)
        norm.masked_fill_(~present, 1)
        self.lowest = torch.minimum(self.lowest, norm.min())
        log_norm = norm.log2() + steps.peak.unsqueeze(2) + positions.peak.unsqueeze(1)
        log_likelihood = score = (gold - log_norm) / LOG2_E
        if vocabulary.uniform:
            of_steps = query @ vocabulary.weight_sum[split:] + vocabulary.bias_sum
            of_all = of_steps.unsqueeze(2) + (memory @ vocabulary.weight_sum[:split]).unsqueeze(1)
            of_all -= log_norm * (vocabulary.size / LOG2_E)
            score = vocabulary.gold * log_likelihood + vocabulary.uniform * of_all
        self.log_likelihood[block.where] = log_likelihood * present
        self.score[block.where] = score * present
        share = self._add_words(block, score, real, present)
        if self.kind.mixtures is not None:
            assert self.correct is not None
            for hits, mixture in zip(self.correct, self.kind.mixtures[(slice(None), *block.where)].to(self.full)):
                best = ((mixture / norm) @ positions.values).mul_(steps.values).argmax(-1)
                hits[block.sentences, block.steps] = best.eq(target) & real.squeeze(2)
        if not self.with_gradients:
            return
        assert self.d_query is not None and self.d_memory is not None and vocabulary.d_transposed is not None
        ratio = share / norm  # w / Z
        by_step, by_position = share.sum(2, keepdim=True), share.sum(1).unsqueeze(2)
        d_steps = (ratio @ positions.values).mul_(steps.values)
        d_positions = (ratio.transpose(1, 2) @ steps.values).mul_(positions.values)
        d_steps.scatter_add_(2, target.unsqueeze(2), -vocabulary.gold * by_step)
        # A word that a sentence has several times is added once, so that the order of sums is the same on a GPU.
        same = target.unsqueeze(2) == target.unsqueeze(1)
        first = same.to(torch.uint8).argmax(2) == torch.arange(target.size(1), device=target.device)
        of_words = (share.transpose(1, 2) @ same.to(self.full)) * first.unsqueeze(1)
        index = target.unsqueeze(1).expand(of_words.shape)
        d_positions.scatter_add_(2, index, of_words.mul_(-vocabulary.gold))
        if vocabulary.uniform:
            d_steps.sub_(by_step, alpha=vocabulary.uniform)
            d_positions.sub_(by_position, alpha=vocabulary.uniform)
        d_steps, d_positions = d_steps.flatten(0, 1), d_positions.flatten(0, 1)
        if vocabulary.d_bias is not None:
            vocabulary.d_bias += d_steps.sum(0)
        vocabulary.d_transposed[split:] += outer(query.flatten(0, 1), d_steps, vocabulary.products)
        vocabulary.d_transposed[:split] += outer(memory.flatten(0, 1), d_positions, vocabulary.products)
        d_query, d_memory = self.of_steps.matmul(d_steps), self.of_positions.matmul(d_positions)
        self.d_query[block.sentences, block.steps, split:] += d_query.view_as(query)
        self.d_memory[block.sentences, block.positions, :split] += d_memory.view_as(memory)

    def _logits(self, weight: Prepared, features: Tensor, bias: Optional[Tensor]) -> Tensor:
        """Logits times log2 e ``[b, r, V]``, in full precision."""
        rows = weight.linear(features.flatten(0, 1) * LOG2_E, bias)
        return rows.to(self.full).view(*features.shape[:2], -1)
