"""The predictions of latent alignment models: log probabilities of all words, mixed over alignments."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import linear
from torch.utils.checkpoint import checkpoint

from .alignment_blocks import Alignments, Block, block_inputs, blocks_of
from .precision import without_autocast
from .tanh import tanh, tanh_

__all__ = ["mixture_log_probs"]


def mixture_log_probs(alignments: Alignments, log_weights: Tensor) -> Tensor:
    """log sum_j exp(log_weights_tj) p(v | j) for all words v (:mod:`fairseq_attn_plugin.ops.alignment_blocks`).

    Differentiable: each block is computed again in the backward pass, so that the T x N x V logits never exist at once.

    Args:
        alignments: the model's states; ``target`` is not used
        log_weights: ``[B, T, K]``, finite; very negative on padding

    Returns:
        ``[B, T, V]`` in the type of ``log_weights``
    """
    blocks = blocks_of(alignments, trim=False)
    if torch.is_grad_enabled() and any(t is not None and t.requires_grad for t in (*alignments, log_weights)):
        rows = [checkpoint(_log_probs, alignments, log_weights, block, use_reentrant=False) for block in blocks]
    else:
        rows = [_log_probs_without_gradients(alignments, log_weights, block) for block in blocks]
    return torch.cat(rows).view(*alignments.query.shape[:2], -1)


def _log_probs(alignments: Alignments, log_weights: Tensor, block: Block) -> Tensor:
    """``[b t, V]``, by differentiable operations."""
    memory, query, keep = block_inputs(alignments, block)
    hidden = tanh(query if memory is None else memory + query)
    features = hidden if keep is None else hidden * keep
    log_probs = linear(features, alignments.weight, alignments.bias).to(log_weights.dtype).log_softmax(-1)
    return (log_probs + log_weights[block.where].unsqueeze(-1)).logsumexp(2).flatten(0, 1)


def _log_probs_without_gradients(alignments: Alignments, log_weights: Tensor, block: Block) -> Tensor:
    """The same by one softmax and one product over the alignments."""
    memory, query, keep = block_inputs(alignments, block)
    hidden = tanh_(query.clone() if memory is None else memory + query)
    features = hidden if keep is None else hidden * keep
    logits = linear(features, alignments.weight, alignments.bias).to(log_weights.dtype)
    weights = log_weights[block.where].flatten(0, 1)
    if weights.size(-1) == 1:
        return (logits.log_softmax(-1).flatten(0, 2)).add_(weights)
    # A word whose probability underflows under every alignment gets the logarithm of the smallest number.
    with without_autocast(logits):
        sums = torch.bmm(weights.exp().unsqueeze(1), logits.softmax(-1).flatten(0, 1)).squeeze(1)
    return sums.clamp_(min=torch.finfo(sums.dtype).tiny).log_()
