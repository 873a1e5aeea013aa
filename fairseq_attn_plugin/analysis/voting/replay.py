"""The buffer of transitions that Q-learning draws its batches from."""

from __future__ import annotations

from typing import Dict

import torch
from torch import Tensor

__all__ = ["Replay"]


class Replay:
    """The last ``size`` transitions: start, hops so far, action, reward, whether the episode ended."""

    def __init__(self, size: int):
        self._columns: Dict[str, Tensor] = {
            "row": torch.zeros(size, dtype=torch.long),
            "step": torch.zeros(size, dtype=torch.long),
            "action": torch.zeros(size, dtype=torch.long),
            "reward": torch.zeros(size),
            "ended": torch.zeros(size, dtype=torch.bool),
        }
        self._next = 0
        self._filled = 0

    def __len__(self) -> int:
        return self._filled

    def add(self, **columns: Tensor) -> None:
        """Adds transitions, one per entry of the columns; they replace the oldest ones."""
        size = len(self._columns["row"])
        count = len(columns["row"])
        places = (self._next + torch.arange(count)) % size
        for name, column in self._columns.items():
            column[places] = columns[name]
        self._next = (self._next + count) % size
        self._filled = min(self._filled + count, size)

    def sample(self, count: int, generator: torch.Generator) -> Dict[str, Tensor]:
        """``count`` transitions, drawn with replacement."""
        places = torch.randint(self._filled, (count,), generator=generator)
        return {name: column[places] for name, column in self._columns.items()}
