"""The contract of biases, their registry, and the sum of those that ``--attention-bias`` names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor, nn

from ..base import Penalty
from ..part_registry import Part, PartConfig, Parts

__all__ = ["BIASES", "Bias", "BiasConfig", "BiasMemory", "BiasState", "Biases", "parse_biases", "register_bias"]


@dataclass
class BiasConfig(PartConfig):
    """Options of a bias; those of the package have the prefix ``attention_bias``."""

    prefix: ClassVar[str] = "attention_bias"


class Bias(Part):
    """What is added to the scores.

    Args:
        query_dim: units of a query, Ds
        memory_dim: units of an encoding, Dh
        config: the options of the class

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


BIASES: Parts[Bias] = Parts("bias", "bias")
register_bias = BIASES.register


class BiasMemory(NamedTuple):
    """The memories of the biases of a batch of sentences, in their order."""

    parts: Tuple[Any, ...]


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
    """The sum of some biases.

    Args:
        chosen: their names
        query_dim: units of a query
        memory_dim: units of an encoding
        options: options of biases by full name

    Raises:
        OptionError: an unknown bias, or an option with a wrong value
    """

    def __init__(self, chosen: List[str], query_dim: int, memory_dim: int, options: Mapping[str, Any]):
        super().__init__()
        self.chosen = tuple(chosen)
        self.reordered = False  # whether a checkpoint with the parameters in another order was loaded
        for name in chosen:
            bias = BIASES.find(name)(query_dim, memory_dim, BIASES.configure(name, options))
            self.add_module(name, bias)
        self.recurrent = any(bias.recurrent for bias in self.parts)

    @property
    def parts(self) -> List[Bias]:
        """The biases, in their order."""
        return [self._modules[name] for name in self.chosen]  # type: ignore[misc]

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> BiasMemory:
        return BiasMemory(tuple(bias.precompute(encodings, pad_mask) for bias in self.parts))

    def initial_state(self, encodings: Tensor) -> Optional[BiasState]:
        return BiasState(tuple(bias.initial_state(encodings) for bias in self.parts)) if self.recurrent else None

    def forward(
        self, query: Tensor, memory: BiasMemory, state: Optional[BiasState], positions: Optional[Tensor]
    ) -> Tensor:
        """What to add to the scores, ``[B, T, N]``; the arguments are those of :meth:`Bias.forward`."""
        if self.recurrent and state is None:
            raise ValueError(f"the biases {', '.join(self.chosen)} need the state of the step before")
        states = (None,) * len(self.chosen) if state is None else state.parts
        terms = [bias(query, one, its, positions) for bias, one, its in zip(self.parts, memory.parts, states)]
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
            for bias, one in zip(self.parts, memory.parts)
            for name, penalty in bias.penalties(one, weights, step_mask).items()
        }

    def _load_from_state_dict(self, state_dict: Dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        for bias in self.parts:
            for before, now in bias.renamed.items():
                if prefix + before in state_dict:
                    state_dict[f"{prefix}{bias.name}.{now}"] = state_dict.pop(prefix + before)
                    self.reordered = len(self.chosen) > 1
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
