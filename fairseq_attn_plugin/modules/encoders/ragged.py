"""Encodes sequences of different lengths in blocks of similar length, so that the work grows with the real elements.

A batch of documents has sentences of one word and of a hundred words. Padded to the longest sentence and the longest
document, it consists mostly of padding. torch's packed sequences need no padding, but have no fused LSTM on the CPU.
Here all sequences are sorted by length and cut into blocks. The shortest sequence of a block has at least ``fill``
times the length of the longest, so that at most 1 / fill times the real elements are computed, in few calls.
"""

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from ...ops.lstm import computed_by_layers
from ..rnn import KINDS, rnn_layer, uniform_

# On a CPU the time depends on the number of elements; on a GPU on the number of steps, which fewer blocks reduce.
CPU_FILL, GPU_FILL = 0.85, 0.5


class Block(NamedTuple):
    """R sequences of at most L elements."""

    rows: np.ndarray  # [R], numbers of the sequences
    places: np.ndarray  # [R, L], places of their elements; on padding the place of the last element
    padding: Optional[np.ndarray]  # [R, L], True on padding; None without
    reversal: Optional[np.ndarray]  # [R, L], the order that reverses every sequence and keeps padding in place


def make_blocks(starts: np.ndarray, lengths: np.ndarray, fill: float) -> List[Block]:
    """Cuts all non-empty sequences into blocks, the longest first.

    Args:
        starts: ``[S]``, place of the first element of each sequence; the other elements follow it
        lengths: ``[S]``, numbers of elements
        fill: smallest length in a block relative to the largest, in (0, 1]
    """
    order = np.argsort(-lengths, kind="stable")[: int((lengths > 0).sum())]
    ordered = lengths[order]
    blocks, start = [], 0
    while start < len(order):
        longest = int(ordered[start])
        # lengths descend: the first ones are at least fill * longest
        end = start + int(np.searchsorted(-ordered[start:], -fill * longest, side="right"))
        rows, sizes = order[start:end], ordered[start:end, None]
        steps = np.arange(longest)[None, :]
        places = starts[rows][:, None] + np.minimum(steps, sizes - 1)
        padding = reversal = None
        if sizes[-1] < longest:
            padding = steps >= sizes
            reversal = np.where(padding, steps, sizes - 1 - steps)
        blocks.append(Block(rows, places, padding, reversal))
        start = end
    return blocks


class BlockRNN(nn.Module):
    """h_j = [forward LSTM or GRU up to j; backward one down to j] for the sequences of a block.

    The module has two unidirectional networks. The second one reads every sequence from its last element to its first.
    No state of a sequence therefore depends on padding.

    Args:
        kind: ``lstm`` or ``gru``
        input_dim: D
        hidden_size: H, units per direction
    """

    def __init__(self, kind: str, input_dim: int, hidden_size: int):
        super().__init__()
        self.ahead = KINDS[kind](input_dim, hidden_size, batch_first=True)
        self.back = KINDS[kind](input_dim, hidden_size, batch_first=True)
        self.output_dim = 2 * hidden_size
        uniform_(self)

    def forward(self, values: Tensor, reversal: Optional[Tensor] = None) -> Tensor:
        """``[R, L, D]`` to ``[R, L, 2 H]``; undefined on padding. ``reversal`` as in :class:`Block`."""
        ahead, back = _run(self.ahead, values), _run(self.back, _reverse(values, reversal))
        return torch.cat([ahead, _reverse(back, reversal)], dim=-1)


def _run(rnn: nn.RNNBase, values: Tensor) -> Tensor:
    if computed_by_layers(values, rnn):
        return rnn_layer(values.transpose(0, 1), rnn, 0)[0].transpose(0, 1)
    return rnn(values)[0]


def _reverse(values: Tensor, reversal: Optional[Tensor]) -> Tensor:
    if reversal is None:
        return values.flip(1)
    return values.gather(1, reversal.unsqueeze(-1).expand(-1, -1, values.size(-1)))


class RaggedEncoder(nn.Module):
    """One vector for each of many sequences: o_i = pool_j(rnn(v_i1, v_i2, ...)_j).

    Args:
        rnn: a :class:`BlockRNN`, or None to pool the elements themselves
        pooling: a function or module from values ``[R, L, D]`` and a mask ``[R, L]`` (True on padding, or None) to
            vectors ``[R, D]`` and weights ``[R, L]``
        output_dim: D
    """

    def __init__(self, rnn: Optional[BlockRNN], pooling: Any, output_dim: int):
        super().__init__()
        self.rnn, self.pooling, self.output_dim = rnn, pooling, output_dim

    def forward(
        self, take: Callable[[Tensor], Tensor], starts: np.ndarray, lengths: np.ndarray, device: torch.device
    ) -> Tuple[Tensor, Tensor]:
        """Encodes S sequences, whose elements lie one after the other among E elements.

        Args:
            take: vectors ``[P, D]`` of the elements at places ``[P]``; called once
            starts: ``[S]``, place of the first element of each sequence
            lengths: ``[S]``, their lengths, which may be zero; their sum is E
            device: where to compute

        Returns:
            vectors ``[S, D]``, zero for a sequence without elements, and the weight of every element, ``[E]``
        """
        blocks = make_blocks(starts, lengths, CPU_FILL if device.type == "cpu" else GPU_FILL)

        def move(array: np.ndarray) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(device)

        places = [block.places.reshape(-1) for block in blocks]
        everywhere = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
        values = take(move(everywhere))
        if not blocks:
            # data-parallel training needs a gradient of every parameter, even for a batch of empty documents
            nothing = sum((0.0 * parameter.sum() for parameter in self.parameters()), values.new_zeros(()))
            return values.new_zeros(len(lengths), self.output_dim) + nothing, values.new_zeros(0)
        contexts, weights, real = [], [], []
        for block, part in zip(blocks, values.split([len(part) for part in places])):
            padding = None if block.padding is None else move(block.padding)
            reversal = None if block.reversal is None else move(block.reversal)
            encodings = part.view(*block.places.shape, -1)
            if self.rnn is not None:
                encodings = self.rnn(encodings, reversal)
            context, weight = self.pooling(encodings, padding)
            contexts.append(context)
            weights.append(weight.reshape(-1))
            real.append(np.ones(len(part), dtype=bool) if block.padding is None else ~block.padding.reshape(-1))
        rows = move(np.concatenate([block.rows for block in blocks]))
        joined = torch.cat(contexts)
        vectors = joined.new_zeros(len(lengths), joined.size(-1)).index_copy(0, rows, joined)
        is_real = np.concatenate(real)
        every_weight = torch.cat(weights).index_select(0, move(np.flatnonzero(is_real)))
        shares = every_weight.new_zeros(int(lengths.sum())).index_copy(0, move(everywhere[is_real]), every_weight)
        return vectors, shares
