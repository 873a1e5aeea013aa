"""What the objectives and the prediction of a model with a latent alignment are computed from."""

from typing import Dict, NamedTuple, Optional, Tuple

import torch.nn.functional as F
from torch import Tensor

from ...attention import Penalty
from ...attention.normalizers import LOG_ZERO
from ...ops.devices import exporting
from ...ops.likelihoods.alignment_blocks import Alignments
from ...ops.likelihoods.first_order import JumpChain


class LatentAlignments(NamedTuple):
    """The tensors of a batch that an objective needs.

    The tensors through which gradients flow are outputs of the model, so that data-parallel wrappers see every
    parameter that is used. In beam search T counts the hypotheses of a sentence, except in ``prior``, which has a row
    for each hypothesis.
    """

    memory: Tensor  # [B, N, D], W_h h_j, or [h_j; 0]
    query: Tensor  # [B, T, D], W_s s_t + b, or [0; s_t]
    weight: Tensor  # [V, D], vocabulary projection
    bias: Optional[Tensor]  # [V]
    keep: Optional[Tensor]  # [B, T, D], the steps' dropout masks, the same for all alignments
    pad_mask: Optional[Tensor]  # [B, N], True on padding
    prior: Tensor  # [B, T, N], p(z_t = j)
    log_prior: Tensor  # [B, T, N], LOG_ZERO on padding
    scores: Tensor  # [B, T, N], the attention's, before its normaliser
    log_posterior: Optional[Tensor] = None  # [B, T, N], log q(z_t = j | x, y)
    posterior_scores: Optional[Tensor] = None  # [B, T, N], before the normaliser
    penalties: Optional[Dict[str, Penalty]] = None  # of the prior's attention
    chain: Optional[JumpChain] = None  # the jumps of first-order alignments
    split: int = 0  # features of h_j in o = [h_j; s_t]; 0: o has a tanh
    exponentials: Optional[Tensor] = None  # [B, N, V], of the positions' part of separable logits, in a search

    def words(self, target: Tensor, pad: int, index: Optional[Tensor] = None) -> Alignments:
        """The words ``target`` ``[B, T]`` with all alignments, or with those of ``index`` ``[B, T, K]``."""
        return Alignments(
            self.memory,
            self.query,
            self.weight,
            self.bias,
            target,
            target.eq(pad),
            self.pad_mask,
            self.keep,
            index,
            self.split,
            self.exponentials,
        )

    def relaxed_words(self, target: Tensor, pad: int, weights: Tensor) -> Alignments:
        """The words ``target`` ``[B, T]``, each with one soft alignment: o of sum_j w_j h_j, weights ``[B, T, N]``."""
        query = self.query + weights.type_as(self.memory) @ self.memory
        return Alignments(
            None, query, self.weight, self.bias, target, target.eq(pad), None, self.keep, split=self.split
        )


def top_positions(log_prior: Tensor, count: int) -> Tuple[Tensor, Tensor]:
    """The ``count`` most probable positions of every step, or all if the source has fewer; ``log_prior`` ``[B, T, N]``.

    Returns:
        the logarithms of their renormalised probabilities, and the positions, ``[B, T, count]`` each
    """
    if exporting():  # a graph adds numbers, where a short source has fewer
        log_weights, index = F.pad(log_prior, (0, count), value=LOG_ZERO).topk(count, dim=-1)
        index = index % log_prior.size(-1)
    else:
        log_weights, index = log_prior.topk(min(count, log_prior.size(-1)), dim=-1)
    # In a shorter sentence of the batch the rest is padding, whose weight stays zero.
    return log_weights.log_softmax(-1).clamp(min=LOG_ZERO), index
