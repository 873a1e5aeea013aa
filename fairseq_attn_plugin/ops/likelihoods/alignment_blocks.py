"""Words and their alignments, cut into blocks whose logits fit into memory.

A latent alignment z = j picks one source position. With H_j = W_h h_j and S_t = W_s s_t + b

    o_tj = keep_t * tanh(H_j + S_t),     log p(y_t | j) = log softmax(W_v o_tj + b_v)[y_t]

or o_tj = [h_j; s_t] where the output layer is linear (``split``), with H_j = [h_j; 0] and S_t = [0; s_t].

(Deng et al. 2018, "Latent Alignment and Variational Attention"). ``keep`` is the dropout mask of a step, the same for
all its alignments. The logits of all pairs (t, j) are T x N x V numbers per sentence. A block holds whole rows: all
alignments of a step are in the same block.

Shapes: B sentences, N source positions, T steps, K alignments of a step, D units, V words; b, t and k in a block. Masks
are True on padding.
"""

from typing import Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from ..devices import on_gpu

# Logits held at a time. On a processor they stay in its cache together with the vocabulary matrix; a GPU is filled.
BLOCK_BYTES = {"cpu": 8 << 20, "cuda": 512 << 20}


class Alignments(NamedTuple):
    """What the likelihoods of words given alignments are computed from.

    Without ``memory``, ``query`` already holds the sum H + S of one relaxed or mean alignment per step (K = 1).
    ``chosen`` picks K positions for every step; without it all N positions are alignments. ``split`` is the number of
    features of h_j in o_tj = [h_j; s_t]: the memory is zero from there on, and the query up to there. With it there is
    no ``keep``.
    """

    memory: Optional[Tensor]  # [B, N, D], H
    query: Tensor  # [B, T, D], S
    weight: Tensor  # [V, D]
    bias: Optional[Tensor]  # [V]
    target: Tensor  # [B, T], the words y; on padding the index of any word
    target_mask: Tensor  # [B, T]
    pad_mask: Optional[Tensor] = None  # [B, N]
    keep: Optional[Tensor] = None  # [B, T, D]
    chosen: Optional[Tensor] = None  # [B, T, K]
    split: int = 0  # 0: o has a tanh
    exponentials: Optional[Tensor] = None  # [B, N, V], e^(W_h h_j), each row with a factor of its own, if known

    @property
    def size(self) -> int:
        """K, the number of alignments of a step."""
        if self.memory is None:
            return 1
        return self.memory.size(1) if self.chosen is None else self.chosen.size(-1)

    def activated(self, sums: Tensor, in_place: bool = False) -> Tensor:
        """o from the sums H + S, without ``keep``; ``in_place`` for code without autograd."""
        if self.split:
            return sums
        return sums.tanh_() if in_place else torch.tanh(sums)

    @property
    def sums_parts(self) -> bool:
        """Whether logits are sums of a part of the step and a part of the position (:mod:`.separable`), and it
        costs less to compute these than all pairs."""
        if self.memory is None or not self.split:
            return False
        positions, steps = self.memory.size(1), self.query.size(1)
        return self.chosen is None or self.size * steps >= positions + steps

    @property
    def has_padding(self) -> bool:
        """Whether some alignments are padding: all source positions are alignments, and some are masked."""
        return self.memory is not None and self.chosen is None and self.pad_mask is not None


class Block(NamedTuple):
    """Sentences, steps and source positions that are computed together."""

    sentences: slice
    steps: slice
    positions: slice  # of the source
    alignments: slice  # the same, or all K alignments where a step chooses its own

    @property
    def where(self) -> Tuple[slice, slice, slice]:
        """Where the block lies in a tensor ``[B, T, K]``."""
        return self.sentences, self.steps, self.alignments


def blocks_of(alignments: Alignments, trim: bool = True, separable: bool = False) -> Iterator[Block]:
    """Covers all words with blocks, in order: only a block of one sentence may hold a part of its steps.

    Args:
        alignments: B sentences
        trim: leave out steps and positions that are padding in all sentences of a block
        separable: hold rows of the two parts and of their gradients, instead of all pairs
    """
    batch, steps, _ = alignments.query.shape
    size = alignments.size
    width = 8 if alignments.query.dtype == torch.float64 else 4
    limit = rows_of_a_block(alignments.query, len(alignments.weight) * width)  # of V logits each
    if separable and alignments.query.device.type == "cpu":
        # Each block adds to the whole gradient of the vocabulary matrix: fewer and larger ones are faster.
        limit *= 2
    rows = size + steps if separable else size * steps
    per_block = max(1, limit // max(1, rows))
    starts, ends, lengths = [0] * batch, [size] * batch, [steps] * batch
    if trim:
        lengths = _extent(alignments.target_mask)[1]
        if alignments.has_padding:
            assert alignments.pad_mask is not None
            starts, ends = _extent(alignments.pad_mask)
    for first in range(0, batch, per_block):
        last = min(batch, first + per_block)
        begin, end = min(starts[first:last]), max(max(ends[first:last]), 1)
        positions = slice(min(begin, end - 1), end)
        own = alignments.chosen is not None or alignments.memory is None
        longest = max(lengths[first:last])
        at_once = steps
        if per_block == 1:
            at_once = max(end - begin, limit - size) if separable else max(1, limit // max(1, end - begin))
        for step in range(0, longest, at_once):
            here = slice(step, min(longest, step + at_once))
            yield Block(slice(first, last), here, positions, slice(None) if own else positions)


def rows_of_a_block(like: Tensor, row_bytes: int) -> int:
    """How many rows of so many bytes a block may hold on the device of a tensor; at least one."""
    device = "cpu" if like.device.type == "cpu" else "cuda"
    return max(1, BLOCK_BYTES[device] // row_bytes)


def _extent(mask: Tensor) -> Tuple[List[int], List[int]]:
    """For each row of a mask ``[B, N]`` the first position that is not masked, and the one after the last; on a GPU 0
    and N."""
    if on_gpu(mask):  # the host does not know the lengths: padding is computed as well
        return [0] * len(mask), [mask.size(1)] * len(mask)
    positions = torch.arange(mask.size(1), device=mask.device)
    first = positions.masked_fill(mask, mask.size(1)).amin(1)
    last = (positions + 1).masked_fill(mask, 0).amax(1)
    bounds = torch.stack([first, last]).tolist()
    return bounds[0], bounds[1]


def block_inputs(alignments: Alignments, block: Block) -> Tuple[Optional[Tensor], Tensor, Optional[Tensor]]:
    """Memory ``[b, 1 or t, k, D]``, query ``[b, t, 1, D]`` and keep ``[b, t, 1, D]`` of a block."""
    query = alignments.query[block.sentences, block.steps].unsqueeze(2)
    keep = None if alignments.keep is None else alignments.keep[block.sentences, block.steps].unsqueeze(2)
    if alignments.memory is None:
        return None, query, keep
    if alignments.chosen is None:
        return alignments.memory[block.sentences, block.positions].unsqueeze(1), query, keep
    memory, index = alignments.memory[block.sentences], alignments.chosen[block.sentences, block.steps]
    picked = memory.gather(1, index.flatten(1).unsqueeze(-1).expand(-1, -1, memory.size(-1)))
    return picked.view(*index.shape, -1), query, keep


def block_masks(alignments: Alignments, block: Block) -> Tuple[Tensor, Tensor]:
    """Which steps have a word ``[b, t, 1]``, and which alignments of these steps are real ``[b, t, 1 or k]``."""
    real = ~alignments.target_mask[block.sentences, block.steps].unsqueeze(-1)
    if not alignments.has_padding:
        return real, real
    assert alignments.pad_mask is not None
    return real, real & ~alignments.pad_mask[block.sentences, block.positions].unsqueeze(1)
