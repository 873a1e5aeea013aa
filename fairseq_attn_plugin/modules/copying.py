"""Copying of source words: the attention as pointer (See, Liu and Manning 2017, "Get To The Point: Summarization with
Pointer-Generator Networks", equations 8 and 9).

With the weights a_tj of the attention, the output o_t from which words are predicted, and m(x) the target word that is
spelled as the source word x,

    g_t = sigmoid(w . o_t + b),     p(y_t = v) = g_t softmax(z_t)_v + (1 - g_t) sum_{j: m(x_j) = v} a_tj

m(x) is the unknown word of the target where the target vocabulary does not have x, and the end for the end. The weights
must sum to one, so that p does.

Shapes: B sentences, R = B times the beam rows, N source positions, T steps, V words.
"""

from typing import Any, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.deferred import Linear, project
from ..ops.devices import on_gpu
from ..ops.likelihoods.alignment_blocks import rows_of_a_block
from ..ops.likelihoods.vocabulary_loss import Targets, VocabularyLoss
from ..ops.precision import recomputed
from .rnn import uniform_

# Sums below this are as good as zero: the gradient of their logarithms would overflow.
SMALLEST = 1e-30


class Copying(nn.Module):
    """The mixture of the module's text.

    Args:
        units: of the output o_t

    Attributes:
        target_of: ``[S]``, m, the index of the target word for each of the S symbols of the source
        gate: from o_t to the logit of g_t
    """

    target_of: Tensor

    def __init__(self, units: int, source_dictionary: Any, target_dictionary: Any):
        super().__init__()
        found = [target_dictionary.index(symbol) for symbol in source_dictionary.symbols]
        # not saved: the dictionaries tell
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
            ``[R, T, V]`` in float32 or better
        """
        log_words, copied = self._parts(logits, features, weights)
        beam = logits.size(0) // tokens.size(0)
        ids = self.target_of[tokens].unsqueeze(1).expand(-1, beam, -1).reshape(logits.size(0), 1, -1)
        shares = torch.zeros_like(log_words).scatter_add(2, ids.expand_as(copied), copied)
        return _log_sum(log_words, shares)

    def loss(
        self,
        features: Tensor,
        vocabulary: Tuple[Tensor, Optional[Tensor]],
        weights: Tensor,
        tokens: Tensor,
        targets: Targets,
    ) -> VocabularyLoss:
        """The loss of words, label smoothing of the mixture included; the logits are computed block by block.

        Each block is computed again in the backward pass, so that its logits are held for a moment only.

        Args:
            features: ``[B, T, F]``
            vocabulary: weight ``[V, F]`` and bias ``[V]`` or None of the projection to z
            weights: ``[B, T, N]``
            tokens: ``[B, N]``
            targets: words ``[B, T]``
        """
        words, ids = targets.words, self.target_of[tokens]
        if on_gpu(words):  # the host does not know which words are padding: they are computed, with the weight 0
            sentences = torch.arange(len(words), device=words.device).repeat_interleave(words.size(1))
            flat = features.flatten(0, 1), weights.flatten(0, 1), words.flatten()
        else:
            sentences, steps = words.ne(targets.pad).nonzero(as_tuple=True)  # no product is wasted on padding
            flat = features[sentences, steps], weights[sentences, steps], words[sentences, steps]
        # of each source word the first place in its sentence: the first of the greatest
        places = ids.unsqueeze(1).eq(ids.unsqueeze(2)).to(torch.uint8).argmax(2) if targets.smoothing else ids
        at_once = rows_of_a_block(features, 4 * len(vocabulary[0]))

        def block(x: Tensor, a: Tensor, y: Tensor, rows: Tensor) -> Tuple[Tensor, Tensor]:
            """Loss of r words of the sentences ``rows``, and its part without label smoothing."""
            log_words, copied = self._parts(project(x, *vocabulary), x, a)
            gold, own = log_words.gather(1, y.unsqueeze(1)).squeeze(1), ids[rows]
            real = y.ne(targets.pad)
            nll = -(_log_sum(gold, (copied * own.eq(y.unsqueeze(1))).sum(1)) * real).sum()
            if not targets.smoothing:
                return nll, nll.detach()
            # Only the words of the source differ from g softmax(z): each at its first place, with all its copies.
            first = places[rows]
            all_copies = torch.zeros_like(copied).scatter_add(1, first, copied).gather(1, first)
            plain = log_words.gather(1, own)
            more = (_log_sum(plain, all_copies) - plain) * (first == torch.arange(first.size(1), device=first.device))
            of_all = ((log_words.sum(1) + more.sum(1)) * real).sum()
            uniform = targets.smoothing / (log_words.size(1) - 1)
            return (1 - targets.smoothing - uniform) * nll - uniform * of_all, nll.detach()

        blocks = zip(*(x.split(at_once) for x in (*flat, sentences)))
        sums: List[Tuple[Tensor, Tensor]] = [recomputed(block, *part) for part in blocks]
        loss, nll = (torch.stack(parts).sum(0) for parts in zip(*sums))
        return VocabularyLoss(loss, nll.detach())

    def _parts(self, logits: Tensor, features: Tensor, weights: Tensor) -> Tuple[Tensor, Tensor]:
        """log(g softmax(z)) ``[..., V]`` and (1 - g) a ``[..., N]``, in float32 or better."""
        full = torch.promote_types(logits.dtype, torch.float32)
        gate = self.gate(features).to(full)  # its sigmoid is p_gen, eq. 8
        return logits.to(full).log_softmax(-1) + F.logsigmoid(gate), weights.to(full) * torch.sigmoid(-gate)


def _log_sum(logs: Tensor, shares: Tensor) -> Tensor:
    """log(e^logs + shares), for shares of zero too; ``logs`` where the sum is next to zero."""
    sums = logs.exp() + shares  # eq. 9
    return torch.where(sums > SMALLEST, sums.clamp(min=SMALLEST).log(), logs)
