"""Each position with its neighbours, and the options that biases of such windows share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import OptionError
from ...ops.devices import exporting
from ...options import option
from .bias import BiasConfig

__all__ = ["WidthConfig", "WindowConfig", "neighbours"]


@dataclass
class WindowConfig(BiasConfig):
    window: int = option(1, "source positions on either side that the markov and fertility biases see (default: 1)")

    def check_window(self) -> None:
        """Raises OptionError for a negative window."""
        if self.window < 0:
            raise OptionError(f"--attention-bias-window {self.window}: must be 0 or more positions on either side")


@dataclass
class WidthConfig(BiasConfig):
    dim: int = option(32, "hidden width of the position and fertility biases (default: 32)")

    def check_width(self) -> None:
        """Raises OptionError for a width below 1."""
        if self.dim < 1:
            raise OptionError(f"--attention-bias-dim {self.dim}: must be at least 1")


def neighbours(x: Tensor, window: int) -> Tensor:
    """``[B, T, N]`` to ``[B, T, N, 2 k + 1]``: each position with k neighbours on either side, zeros beyond the
    ends."""
    padded, size = F.pad(x, (window, window)), 2 * window + 1
    if exporting():
        return torch.stack([padded[..., i : i + x.size(-1)] for i in range(size)], dim=-1)
    return padded.unfold(-1, size, 1)
