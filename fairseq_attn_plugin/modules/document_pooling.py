"""Parts of document classifiers: the places of words and sentences in a batch, and pooling of values to one vector."""

from typing import Any, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from ..attention import build_attention


class Layout(NamedTuple):
    """The words of B documents, document after document and sentence after sentence."""

    places: np.ndarray  # [W], place of each word in the flattened src_tokens
    sentence_of: np.ndarray  # [W], its sentence
    sentence_starts: np.ndarray  # [S], first word of each sentence
    sentence_lengths: np.ndarray  # [S], in words
    document_starts: np.ndarray  # [B], first sentence of each document
    document_lengths: np.ndarray  # [B], in sentences


def layout_of(tokens: np.ndarray, pad: int, bos: int, eos: int, hierarchical: bool = True) -> Layout:
    """Finds words and sentences. Sentences without words are left out; a document may have no sentence.

    Args:
        tokens: ``[B, N]``, padded on either side; every sentence ends with ``eos``
        pad, bos, eos: the symbols, which are no words; ``bos`` may begin a document
        hierarchical: False makes each document one sentence
    """
    documents, width = tokens.shape
    words = (tokens != pad) & (tokens != bos) & (tokens != eos)
    before = np.cumsum(tokens == eos, axis=1) if hierarchical else np.zeros_like(tokens)
    keys = (np.arange(documents)[:, None] * (width + 1) + before)[words]
    first = np.ones(len(keys), dtype=bool)
    first[1:] = keys[1:] != keys[:-1]
    starts = np.flatnonzero(first)
    counts = np.bincount(keys[starts] // (width + 1), minlength=documents)
    return Layout(
        places=np.flatnonzero(words.reshape(-1)),
        sentence_of=np.cumsum(first) - 1,
        sentence_starts=starts,
        sentence_lengths=np.diff(starts, append=len(keys)),
        document_starts=np.cumsum(counts) - counts,
        document_lengths=counts,
    )


class AttentionPooling(nn.Module):
    """o = sum_j a_j h_j with a = attention(q, h), q a trained vector.

    (Yang et al. 2016, "Hierarchical Attention Networks for Document Classification", equations 5 to 10.) Any mechanism
    works that reads neither words nor other steps. The score ``additive`` is that of the paper: u . tanh(W h_j + b) is
    its tanh(W h_j + b) . u_w, and q is one more summand of the trained b.

    Args:
        dim: D, width of the values
        options: of the mechanism
    """

    def __init__(self, attention: str, dim: int, **options: Any):
        super().__init__()
        self.query = nn.Parameter(torch.empty(dim).uniform_(-0.1, 0.1))
        self.attention = build_attention(attention, dim, dim, **options)

    def forward(self, values: Tensor, pad_mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        """``[R, L, D]`` and a mask ``[R, L]`` (True on padding) to vectors ``[R, D]`` and weights ``[R, L]``."""
        memory = self.attention.precompute(values, pad_mask)
        query = self.query.expand(values.size(0), 1, -1)
        output = self.attention.step(query, memory, self.attention.initial_state(memory))
        return output.context.squeeze(1), output.weights.squeeze(1)  # eq. 7 or 10, and 6 or 9


def mean_pooling(values: Tensor, pad_mask: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
    """o = 1/n sum_j h_j, as :meth:`AttentionPooling.forward`."""
    real = values.new_ones(values.shape[:2]) if pad_mask is None else (~pad_mask).to(values.dtype)
    weights = real / real.sum(1, keepdim=True)
    return torch.matmul(weights.unsqueeze(1), values).squeeze(1), weights
