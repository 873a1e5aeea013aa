"""The predictions of latent alignment models: log probabilities of all words, mixed over alignments."""

from typing import Optional, Tuple

import torch
from torch import Tensor

from ..deferred import multiply
from ..devices import exporting
from ..precision import recomputed, without_autocast
from .alignment_blocks import Alignments, Block, block_inputs, block_masks, blocks_of
from .separable import log_mixture_of, spread
from .vocabulary_loss import SAFE_SUMS


def mixture_log_probs(alignments: Alignments, log_weights: Tensor) -> Tensor:
    """log sum_j exp(log_weights_tj) p(v | j) for all words v (:mod:`.alignment_blocks`).

    Differentiable: each block is computed again in the backward pass, so that the T x N x V logits never exist at once.

    Args:
        alignments: the model's states; ``target`` is not used
        log_weights: ``[B, T, K]``, finite; very negative on padding

    Returns:
        ``[B, T, V]`` in the type of ``log_weights``
    """
    if exporting():
        return _of_all(alignments, log_weights).view(*alignments.query.shape[:2], -1)
    if alignments.sums_parts:
        found = _of_parts(alignments, log_weights)
        if found is not None:
            return found
    blocks = blocks_of(alignments, trim=False)
    if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in (*alignments, log_weights)):
        rows = [recomputed(_log_probs, alignments, log_weights, block) for block in blocks]
    else:
        of_block = _of_one if alignments.size == 1 else _of_several
        rows = [of_block(alignments, log_weights, block) for block in blocks]
    return torch.cat(rows).view(*alignments.query.shape[:2], -1)


def _of_all(alignments: Alignments, log_weights: Tensor) -> Tensor:
    """``[B T, V]`` without blocks, whose number depends on sizes. Sums of separable alignments are in float64, which
    need no second way."""
    block = Block(*[slice(None)] * 4)
    if alignments.memory is None:
        return _of_one(alignments, log_weights, block)
    if not alignments.split:
        return _of_several(alignments, log_weights, block)
    if alignments.chosen is not None:
        log_weights = spread(log_weights, alignments.chosen, alignments.memory.size(1), logs=True)
        alignments = alignments._replace(chosen=None)
    return _of_separable(alignments, log_weights.double(), block)[0].to(log_weights.dtype)


def _log_probs(alignments: Alignments, log_weights: Tensor, block: Block) -> Tensor:
    """``[b t, V]``, by differentiable operations."""
    memory, query, keep = block_inputs(alignments, block)
    hidden = alignments.activated(query if memory is None else memory + query)
    features = hidden if keep is None else hidden * keep
    log_probs = multiply(features, alignments.weight, alignments.bias).to(log_weights.dtype).log_softmax(-1)
    return (log_probs + log_weights[block.where].unsqueeze(-1)).logsumexp(2).flatten(0, 1)


def _of_parts(alignments: Alignments, log_weights: Tensor) -> Optional[Tensor]:
    """The result by the parts of separable alignments; None if it may be wrong."""
    assert alignments.memory is not None
    if alignments.chosen is not None:
        log_weights = spread(log_weights, alignments.chosen, alignments.memory.size(1), logs=True)
        alignments = alignments._replace(chosen=None)
    rows = []
    for block in blocks_of(alignments, trim=False, separable=True):
        row, safe = recomputed(_of_separable, alignments, log_weights, block)
        if not safe:
            return None
        rows.append(row)
    return torch.cat(rows).view(*alignments.query.shape[:2], -1)


def _of_separable(alignments: Alignments, log_weights: Tensor, block: Block) -> Tuple[Tensor, bool]:
    """``[b t, V]`` by differentiable operations, and whether they are right."""
    assert alignments.memory is not None
    split, full = alignments.split, log_weights.dtype
    query = alignments.query[block.sentences, block.steps, split:]
    if alignments.exponentials is not None:
        positions = alignments.exponentials[block.sentences, block.positions].to(full)
    else:
        memory = alignments.memory[block.sentences, block.positions, :split]
        positions = multiply(memory, alignments.weight[:, :split]).to(full)
        positions = (positions - positions.detach().amax(-1, keepdim=True)).exp()
    logits = multiply(query, alignments.weight[:, split:], alignments.bias).to(full)
    with without_autocast(logits):
        log_probs, norm = log_mixture_of(logits, log_weights[block.where], positions)
    _, present = block_masks(alignments, block)
    return log_probs.flatten(0, 1), bool((norm > SAFE_SUMS[0]).logical_or_(~present).all())


def _features(alignments: Alignments, block: Block) -> Tensor:
    """``[b t k, D]``, without gradients."""
    memory, query, keep = block_inputs(alignments, block)
    hidden = alignments.activated(query.clone() if memory is None else memory + query, in_place=True)
    return (hidden if keep is None else hidden * keep).flatten(0, 2)


def _of_one(alignments: Alignments, log_weights: Tensor, block: Block) -> Tensor:
    logits = multiply(_features(alignments, block), alignments.weight, alignments.bias).to(log_weights.dtype)
    return logits.log_softmax(-1).add_(log_weights[block.where].flatten(0, 1))


def _of_several(alignments: Alignments, log_weights: Tensor, block: Block) -> Tensor:
    """log sum_k w_k E_kv / S_k with the exponentials E of the logits, and their sums S."""
    logits = multiply(_features(alignments, block), alignments.weight, alignments.bias).to(log_weights.dtype)
    with without_autocast(logits):
        values = logits.sub_(logits.amax(1, keepdim=True)).exp_()
        weights = log_weights[block.where].flatten(0, 1).exp()
        shares = (weights / values.sum(1).view_as(weights)).unsqueeze(1)
        sums = torch.bmm(shares, values.view(*weights.shape, -1)).squeeze(1)
    # A word whose probability underflows under every alignment gets the logarithm of the smallest number.
    return sums.clamp_(min=torch.finfo(sums.dtype).tiny).log_()
