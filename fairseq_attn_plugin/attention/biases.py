"""Biases added to the scores of any mechanism: prior knowledge about alignments.

With t and j counted from 0 (padding before a sentence does not count), n the sentence's length and a_tj the weights,

    position    v . tanh( w_t log(1 + t) + w_j log(1 + j) + w_n log(1 + n) + b )
    markov      sum_{|d| <= k} u_d a_{t-1, j+d}                                 where the previous step looked
    fertility   v . tanh( sum_{|d| <= k} w_d C_{t, j+d} + b ),  C_tj = sum_{i < t} a_ij     how much of j is covered

after Cohn, Hoang, Vymolova, Yao, Dyer and Haffari 2016, "Incorporating Structural Alignment Biases into an Attentional
Neural Translation Model" (there they are inputs of the additive score; as terms of their own they go with any score).
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..ops.devices import exporting
from ..ops.precision import in_full
from ..options import option
from .base import Penalty, word_positions
from .part_registry import Part, PartConfig, Parts, need_own
from .scores import projection

SMALLEST_VARIANCE = 0.05  # of a fertility


@dataclass
class BiasConfig(PartConfig):
    """Options of a bias; those of the package have the prefix ``attention_bias``."""

    prefix: ClassVar[str] = "attention_bias"


class Bias(Part):
    """What is added to the scores.

    Args:
        query_dim: units of a query, Ds
        memory_dim: units of an encoding, Dh

    Attributes:
        recurrent: whether a step needs the state that the previous step returned
        renamed: names of parameters in earlier checkpoints, counted from ``biases.``, and their names in the bias

    Raises:
        OptionError: options with wrong values
    """

    recurrent: bool = False
    renamed: ClassVar[Mapping[str, str]] = {}

    def __init__(self, query_dim: int, memory_dim: int, config: PartConfig):
        super().__init__(config)

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Any:
        """All work that does not depend on the query, once per sentence.

        Args:
            encodings: ``[B, N, Dh]``
            pad_mask: ``[B, N]``, True on padding; None without padding

        Returns:
            None, a tensor, or a NamedTuple of tensors (or None), whose first dimension is B
        """
        return None

    def initial_state(self, encodings: Tensor) -> Any:
        """The state before the first step: None, a tensor ``[B, 1, ...]``, or a NamedTuple of such tensors."""
        return None

    def forward(self, query: Tensor, memory: Any, state: Any, positions: Optional[Tensor]) -> Tensor:
        """What to add to the scores, ``[B, T, N]``; meaningless on padding.

        Args:
            query: ``[B, T, Ds]``
            memory: from :meth:`precompute`
            state: from :meth:`initial_state` or :meth:`advance`
            positions: ``[B, T]``, the decoder step of each query, from 0
        """
        raise NotImplementedError

    def advance(self, state: Any, weights: Tensor) -> Any:
        """The state after a step with these weights ``[B, T, N]``."""
        return state

    def penalties(self, memory: Any, weights: Tensor, step_mask: Optional[Tensor]) -> Dict[str, Penalty]:
        """Terms of the training loss by name; the arguments are those of :meth:`Attention.penalties`."""
        return {}


BIASES: Parts[Bias] = Parts("attention_bias", "bias", submodules=True)
register_bias = BIASES.register


BiasMemory = Tuple[Any, ...]  # the memories of the biases of a batch of sentences, in their order


class BiasState(NamedTuple):
    """The states of the biases, in their order."""

    parts: Tuple[Any, ...]


def parse_biases(text: str) -> List[str]:
    """The biases that ``--attention-bias`` names, in its order, each once.

    Raises:
        OptionError: an unknown one
    """
    wanted = [item.strip() for item in text.split(",") if item.strip()]
    for item in wanted:
        BIASES.find(item, text)
    return list(dict.fromkeys(wanted))


class Biases(nn.Module):
    """The sum of the ``chosen`` biases, with ``options`` by full name.

    Raises:
        OptionError: an unknown bias, or an option with a wrong value
    """

    def __init__(self, chosen: List[str], query_dim: int, memory_dim: int, options: Mapping[str, Any]):
        super().__init__()
        self.chosen = tuple(chosen)
        self.reordered = False  # whether a checkpoint with the parameters in another order was loaded
        for name in chosen:
            self.add_module(name, BIASES.build(name, query_dim, memory_dim, **options))
        self.recurrent = any(bias.recurrent for bias in self.parts)

    @property
    def parts(self) -> List[Bias]:
        """The biases, in their order."""
        return [self._modules[name] for name in self.chosen]  # type: ignore[misc]

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> BiasMemory:
        return tuple(bias.precompute(encodings, pad_mask) for bias in self.parts)

    def initial_state(self, encodings: Tensor) -> Optional[BiasState]:
        return BiasState(tuple(bias.initial_state(encodings) for bias in self.parts)) if self.recurrent else None

    def forward(
        self, query: Tensor, memory: BiasMemory, state: Optional[BiasState], positions: Optional[Tensor]
    ) -> Tensor:
        """What to add to the scores, ``[B, T, N]``; the arguments are those of :meth:`Bias.forward`."""
        if self.recurrent and state is None:
            raise ValueError(f"the biases {', '.join(self.chosen)} need the state of the step before")
        states = (None,) * len(self.chosen) if state is None else state.parts
        terms = [bias(query, one, its, positions) for bias, one, its in zip(self.parts, memory, states)]
        return torch.stack(terms).sum(0) if len(terms) > 1 else terms[0]

    def advance(self, state: Optional[BiasState], weights: Tensor) -> Optional[BiasState]:
        """The state after a step with these weights ``[B, T, N]``."""
        if state is None:
            return None
        return BiasState(tuple(bias.advance(its, weights) for bias, its in zip(self.parts, state.parts)))

    def penalties(self, memory: BiasMemory, weights: Tensor, step_mask: Optional[Tensor]) -> Dict[str, Penalty]:
        """Those of all biases."""
        return {
            name: penalty
            for bias, one in zip(self.parts, memory)
            for name, penalty in bias.penalties(one, weights, step_mask).items()
        }

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for bias in self.parts:
            for before, now in bias.renamed.items():
                if prefix + before in state_dict:
                    state_dict[f"{prefix}{bias.name}.{now}"] = state_dict.pop(prefix + before)
                    self.reordered = len(self.chosen) > 1
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


@dataclass
class WindowConfig(BiasConfig):
    window: int = option(1, "source positions on either side that the markov and fertility biases see (default: 1)")


@dataclass
class WidthConfig(BiasConfig):
    dim: int = option(32, "hidden width of the position and fertility biases (default: 32)")


def neighbours(x: Tensor, window: int) -> Tensor:
    """``[B, T, N]`` to ``[B, T, N, 2 k + 1]``: each position with k neighbours on either side, zeros beyond the
    ends."""
    padded, size = F.pad(x, (window, window)), 2 * window + 1
    if exporting():
        return torch.stack([padded[..., i : i + x.size(-1)] for i in range(size)], dim=-1)
    return padded.unfold(-1, size, 1)


@register_bias("position")
class PositionBias(Bias):
    """v . tanh( w_t log(1 + t) + w_j log(1 + j) + w_n log(1 + n) + b )."""

    Config = WidthConfig
    renamed = {
        "position.weight": "projection.weight",
        "position.bias": "projection.bias",
        "position_vector": "vector",
    }

    def __init__(self, query_dim: int, memory_dim: int, config: WidthConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(config.dim >= 1, config, "dim", "at least 1")
        self.projection = projection(3, config.dim)
        self.vector = nn.Parameter(torch.empty(config.dim).uniform_(-0.1, 0.1))

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Tensor:
        """w_j log(1 + j) + w_n log(1 + n) + b, ``[B, N, A]``."""
        words, length = word_positions(encodings, pad_mask)
        features = torch.stack([torch.zeros_like(words), words, length.expand_as(words)], dim=-1)
        return self.projection(torch.log1p(features).to(encodings.dtype))

    def forward(self, query: Tensor, memory: Tensor, state: None, positions: Optional[Tensor]) -> Tensor:
        if positions is None:
            raise ValueError("the position bias needs the argument positions: the decoder step of each query")
        dtype = torch.promote_types(memory.dtype, torch.float32)
        steps = torch.log1p(positions.to(dtype)).to(memory.dtype)
        hidden = memory.unsqueeze(1) + (steps.unsqueeze(-1) * self.projection.weight[:, 0]).unsqueeze(2)
        return torch.tanh(hidden) @ self.vector


@register_bias("markov")
class MarkovBias(Bias):
    """sum_{|d| <= k} u_d a_{t-1, j+d}; its state is the weights of the step before, ``[B, T, N]``."""

    Config = WindowConfig
    recurrent = True
    renamed = {"markov.weight": "projection.weight"}

    def __init__(self, query_dim: int, memory_dim: int, config: WindowConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(config.window >= 0, config, "window", "0 or more positions on either side")
        self.projection = projection(2 * config.window + 1, 1, bias=False)

    def initial_state(self, encodings: Tensor) -> Tensor:
        return encodings.new_zeros(encodings.size(0), 1, encodings.size(1))

    def forward(self, query: Tensor, memory: None, state: Tensor, positions: Optional[Tensor]) -> Tensor:
        return self.projection(neighbours(state, self.config.window)).squeeze(-1)

    def advance(self, state: Tensor, weights: Tensor) -> Tensor:
        return weights


@dataclass
class FertilityConfig(WindowConfig, WidthConfig):
    prefix: ClassVar[str] = "attention_fertility"

    weight: float = option(0.1, "factor of the fertility bias's penalty in the loss; 0 has none (default: 0.1)")


class FertilityMemory(NamedTuple):
    """The prediction m(h_j) and v(h_j); without a penalty the bias has no memory."""

    pad_mask: Optional[Tensor]  # [B, N]
    mean: Tensor  # [B, N]
    variance: Tensor  # [B, N]


@register_bias("fertility")
class FertilityBias(Bias):
    """v . tanh( sum_{|d| <= k} w_d C_{t, j+d} + b ); its state is C, ``[B, T, N]``, in float32 or better.

    It has a penalty, the negative log-likelihood of the words' fertilities under a prediction from their encodings
    (Cohn et al. 2016: global fertility):

        loss = -sum_j log N( sum_t a_tj ; m(h_j), v(h_j) )
        m = softplus(w_m . h_j + b_m),   v = softplus(w_v . h_j + b_v) + 0.05

    The smallest variance bounds it from below: without it the likelihood of a word whose fertility is predicted exactly
    would be unbounded.
    """

    Config = FertilityConfig
    recurrent = True
    renamed = {
        "fertility.weight": "projection.weight",
        "fertility.bias": "projection.bias",
        "fertility_vector": "vector",
        "predicted.weight": "predicted.weight",
        "predicted.bias": "predicted.bias",
    }

    def __init__(self, query_dim: int, memory_dim: int, config: FertilityConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(config.window >= 0, config, "window", "0 or more positions on either side")
        need_own(config.dim >= 1, config, "dim", "at least 1")
        need_own(0 <= config.weight < math.inf, config, "weight", "0 or more")
        self.projection = projection(2 * config.window + 1, config.dim)
        self.vector = nn.Parameter(torch.empty(config.dim).uniform_(-0.1, 0.1))
        self.predicted = projection(memory_dim, 2) if config.weight else None

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Optional[FertilityMemory]:
        if self.predicted is None:
            return None
        mean, variance = F.softplus(in_full(self.predicted(encodings))).unbind(-1)
        return FertilityMemory(pad_mask, mean, variance + SMALLEST_VARIANCE)

    def initial_state(self, encodings: Tensor) -> Tensor:
        return in_full(encodings.new_zeros(encodings.size(0), 1, encodings.size(1)))

    def forward(
        self, query: Tensor, memory: Optional[FertilityMemory], state: Tensor, positions: Optional[Tensor]
    ) -> Tensor:
        windows = neighbours(state, self.config.window).to(self.vector.dtype)
        return torch.tanh(self.projection(windows)) @ self.vector

    def advance(self, state: Tensor, weights: Tensor) -> Tensor:
        return state + weights

    def penalties(
        self, memory: Optional[FertilityMemory], weights: Tensor, step_mask: Optional[Tensor]
    ) -> Dict[str, Penalty]:
        if memory is None:
            return {}
        weights = in_full(weights)
        if step_mask is not None:
            weights = weights.masked_fill(step_mask.unsqueeze(-1), 0.0)
        distance = weights.sum(1) - memory.mean
        costs = 0.5 * (distance.square() / memory.variance + torch.log(2 * math.pi * memory.variance))
        if memory.pad_mask is not None:
            costs = costs.masked_fill(memory.pad_mask, 0.0)
        return {"fertility_penalty": Penalty(costs.sum(), self.config.weight)}
