"""Copying of source words: the attention as pointer (See, Liu and Manning 2017, "Get To The Point: Summarization with
Pointer-Generator Networks", equations 8 and 9).

With the weights a_tj of the attention, the output o_t from which words are predicted, and m(x) the target word that is
spelled as the source word x,

    g_t = sigmoid(w . o_t + b),     p(y_t = v) = g_t softmax(z_t)_v + (1 - g_t) sum_{j: m(x_j) = v} a_tj

m(x) is the unknown word of the target where the target vocabulary does not have x, and the end for the end. The weights
must sum to one, so that p does.

Shapes: B sentences, R = B times the beam rows, N source positions, T steps, V words.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.deferred import Linear
from .rnn import uniform_

__all__ = ["Copying"]

# Sums below this are as good as zero: the gradient of their logarithms would overflow.
SMALLEST = 1e-30


class Copying(nn.Module):
    """The mixture of the module's text.

    Args:
        units: of the output o_t
        source_dictionary: fairseq's dictionary of the source
        target_dictionary: fairseq's dictionary of the target

    Attributes:
        target_of: ``[S]``, m, the index of the target word for each of the S symbols of the source
        gate: from o_t to the logit of g_t
    """

    target_of: Tensor

    def __init__(self, units: int, source_dictionary: Any, target_dictionary: Any):
        super().__init__()
        found = [target_dictionary.index(symbol) for symbol in source_dictionary.symbols]
        # not saved: the dictionaries tell, and averages of parameters (--store-ema) take no whole numbers
        self.register_buffer("target_of", torch.tensor(found, dtype=torch.long), persistent=False)
        self.gate = uniform_(Linear(units, 1))

    def forward(self, logits: Tensor, features: Tensor, weights: Tensor, tokens: Tensor) -> Tensor:
        """log p of all words.

        Args:
            logits: ``[R, T, V]``, z
            features: ``[R, T, F]``, o
            weights: ``[R, T, N]``, zero on padding
            tokens: the source words ``[B, N]``

        Returns:
            ``[R, T, V]`` in float32 or better; without copies where the sum is next to zero
        """
        full = torch.promote_types(logits.dtype, torch.float32)
        gate = self.gate(features).to(full)  # its sigmoid is p_gen, eq. 8
        log_words = logits.to(full).log_softmax(-1) + F.logsigmoid(gate)
        copied = weights.to(full) * torch.sigmoid(-gate)
        beam = logits.size(0) // tokens.size(0)
        ids = self.target_of[tokens].unsqueeze(1).expand(-1, beam, -1).reshape(logits.size(0), 1, -1)
        shares = torch.zeros_like(log_words).scatter_add(2, ids.expand_as(copied), copied)
        sums = log_words.exp() + shares  # eq. 9
        return torch.where(sums > SMALLEST, sums.clamp(min=SMALLEST).log(), log_words)
