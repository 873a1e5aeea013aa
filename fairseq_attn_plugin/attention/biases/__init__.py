"""Biases added to the scores of any mechanism: prior knowledge about alignments.

With t and j counted from 0 (padding before a sentence does not count), n the sentence's length and a_tj the weights,

    position    v . tanh( w_t log(1 + t) + w_j log(1 + j) + w_n log(1 + n) + b )
    markov      sum_{|d| <= k} u_d a_{t-1, j+d}                                 where the previous step looked
    fertility   v . tanh( sum_{|d| <= k} w_d C_{t, j+d} + b ),  C_tj = sum_{i < t} a_ij     how much of j is covered

after Cohn, Hoang, Vymolova, Yao, Dyer and Haffari 2016, "Incorporating Structural Alignment Biases into an Attentional
Neural Translation Model" (there they are inputs of the additive score; as terms of their own they go with any score).
``fertility`` also has a penalty, the negative log-likelihood of the words' fertilities under a prediction from their
encodings (there: global fertility):

    - sum_j log N( sum_t a_tj ; m(h_j), v(h_j) ),   m = softplus(w_m . h_j + b_m),  v = softplus(w_v . h_j + b_v) + 0.05

The smallest variance bounds it from below: without it the likelihood of a word whose fertility is predicted exactly
would be unbounded.
"""

from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import OptionError
from ..ops.exporting import exporting
from .base import AttentionConfig, Penalty
from .normalizers import in_full
from .scores import projection

__all__ = ["BIASES", "BiasMemory", "BiasState", "Biases", "build_biases", "parse_biases", "word_positions"]

BIASES = ("position", "markov", "fertility")
SMALLEST_VARIANCE = 0.05


class BiasMemory(NamedTuple):
    """The memory of the biases of a batch of sentences; None for biases that are not in use."""

    pad_mask: Optional[Tensor]  # [B, N]
    place: Optional[Tensor]  # [B, N, A], position: w_j log(1 + j) + w_n log(1 + n) + b
    mean: Optional[Tensor]  # [B, N], fertility: m(h_j)
    variance: Optional[Tensor]  # [B, N], fertility: v(h_j)


class BiasState(NamedTuple):
    previous: Optional[Tensor]  # [B, T, N], markov: the weights of the step before
    coverage: Optional[Tensor]  # [B, T, N], fertility: the sum of all weights before, in float32 or better


def parse_biases(text: str) -> List[str]:
    """The biases that ``--attention-bias`` names, in the order of ``BIASES``.

    Raises:
        OptionError: an unknown one
    """
    wanted = [item.strip() for item in text.split(",") if item.strip()]
    for item in wanted:
        if item not in BIASES:
            raise OptionError(
                f"--attention-bias {text}: {item!r} is unknown; choose from {', '.join(BIASES)}, separated by commas"
            )
    return [item for item in BIASES if item in wanted]


def build_biases(config: AttentionConfig, memory_dim: int) -> Optional[Biases]:
    """The biases that a configuration names, or None.

    Raises:
        OptionError: unknown names, or values out of range
    """
    chosen = parse_biases(config.bias)
    if config.bias_window < 0:
        raise OptionError(f"--attention-bias-window {config.bias_window}: must be 0 or more positions on either side")
    if config.bias_dim < 1:
        raise OptionError(f"--attention-bias-dim {config.bias_dim}: must be at least 1")
    if not (0 <= config.fertility_weight < math.inf):
        raise OptionError(f"--attention-fertility-weight {config.fertility_weight}: must be 0 or more")
    return Biases(chosen, config, memory_dim) if chosen else None


class Biases(nn.Module):
    """The sum of some of the biases of the module's text.

    Args:
        chosen: some of ``BIASES``
        config: window, widths, and the weight of the fertility penalty
        memory_dim: units of a source encoding
    """

    def __init__(self, chosen: List[str], config: AttentionConfig, memory_dim: int):
        super().__init__()
        self.window, self.fertility_weight = config.bias_window, config.fertility_weight
        self.recurrent = "markov" in chosen or "fertility" in chosen
        self.position: Optional[nn.Linear] = None
        self.markov: Optional[nn.Linear] = None
        self.fertility: Optional[nn.Linear] = None
        if "position" in chosen:
            self.position = projection(3, config.bias_dim)
            self.position_vector = nn.Parameter(torch.empty(config.bias_dim).uniform_(-0.1, 0.1))
        if "markov" in chosen:
            self.markov = projection(2 * self.window + 1, 1, bias=False)
        if "fertility" in chosen:
            self.fertility = projection(2 * self.window + 1, config.bias_dim)
            self.fertility_vector = nn.Parameter(torch.empty(config.bias_dim).uniform_(-0.1, 0.1))
            self.predicted = projection(memory_dim, 2) if self.fertility_weight else None

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> BiasMemory:
        place = mean = variance = None
        if self.position is not None:
            words, length = word_positions(encodings, pad_mask)
            features = torch.stack([torch.zeros_like(words), words, length.expand_as(words)], dim=-1)
            place = self.position(torch.log1p(features).to(encodings.dtype))
        if self.fertility is not None and self.predicted is not None:
            mean, variance = F.softplus(in_full(self.predicted(encodings))).unbind(-1)
            variance = variance + SMALLEST_VARIANCE
        return BiasMemory(pad_mask, place, mean, variance)

    def initial_state(self, encodings: Tensor) -> Optional[BiasState]:
        if not self.recurrent:
            return None
        nothing = encodings.new_zeros(encodings.size(0), 1, encodings.size(1))
        return BiasState(None if self.markov is None else nothing, None if self.fertility is None else in_full(nothing))

    def forward(self, memory: BiasMemory, state: Optional[BiasState], positions: Optional[Tensor]) -> Tensor:
        """What to add to the scores, ``[B, T, N]``.

        Args:
            memory: from :meth:`precompute`
            state: from :meth:`initial_state` or :meth:`advance`
            positions: ``[B, T]``, the decoder step of each query, from 0; ``position`` needs it
        """
        terms = []
        if self.position is not None and memory.place is not None:
            if positions is None:
                raise ValueError("the position bias needs the argument positions: the decoder step of each query")
            dtype = torch.promote_types(memory.place.dtype, torch.float32)
            steps = torch.log1p(positions.to(dtype)).to(memory.place.dtype)
            hidden = memory.place.unsqueeze(1) + (steps.unsqueeze(-1) * self.position.weight[:, 0]).unsqueeze(2)
            terms.append(torch.tanh(hidden) @ self.position_vector)
        if self.recurrent and state is None:
            raise ValueError("the markov and fertility biases need the state of the step before")
        if self.markov is not None:
            assert state is not None and state.previous is not None
            terms.append(self.markov(self._windows(state.previous)).squeeze(-1))
        if self.fertility is not None:
            assert state is not None and state.coverage is not None
            windows = self._windows(state.coverage).to(self.fertility.weight.dtype)
            terms.append(torch.tanh(self.fertility(windows)) @ self.fertility_vector)
        return torch.stack(terms).sum(0) if len(terms) > 1 else terms[0]

    def advance(self, state: Optional[BiasState], weights: Tensor) -> Optional[BiasState]:
        """The state after a step with these weights ``[B, T, N]``."""
        if state is None:
            return None
        return BiasState(
            None if self.markov is None else weights, None if state.coverage is None else state.coverage + weights
        )

    def penalties(self, memory: BiasMemory, weights: Tensor, step_mask: Optional[Tensor]) -> Dict[str, Penalty]:
        """``fertility``'s, see the module's text; the arguments are those of ``Attention.penalties``."""
        if memory.mean is None or memory.variance is None:
            return {}
        weights = in_full(weights)
        if step_mask is not None:
            weights = weights.masked_fill(step_mask.unsqueeze(-1), 0.0)
        distance = weights.sum(1) - memory.mean
        costs = 0.5 * (distance.square() / memory.variance + torch.log(2 * math.pi * memory.variance))
        if memory.pad_mask is not None:
            costs = costs.masked_fill(memory.pad_mask, 0.0)
        return {"fertility_penalty": Penalty(costs.sum(), self.fertility_weight)}

    def _windows(self, x: Tensor) -> Tensor:
        """``[B, T, N]`` to ``[B, T, N, 2 k + 1]``: each position with its neighbours, zeros beyond the ends."""
        padded, size = F.pad(x, (self.window, self.window)), 2 * self.window + 1
        if exporting():
            return torch.stack([padded[..., i : i + x.size(-1)] for i in range(size)], dim=-1)
        return padded.unfold(-1, size, 1)


def word_positions(encodings: Tensor, pad_mask: Optional[Tensor]) -> Tuple[Tensor, Tensor]:
    """Each word's number in its sentence from 0, ``[B, N]`` (meaningless on padding), and the lengths ``[B, 1]``, in
    float32 or better: half precision cannot count far."""
    batch, size, _ = encodings.shape
    dtype = torch.promote_types(encodings.dtype, torch.float32)
    if pad_mask is None:
        words = torch.arange(size, dtype=dtype, device=encodings.device).expand(batch, size)
        return words, words.new_full((batch, 1), float(size))
    real = (~pad_mask).to(dtype)
    return (real.cumsum(1) - 1).clamp(min=0), real.sum(1, keepdim=True)
