"""The contract of scores, and their registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Optional

from torch import Tensor, nn

from ...ops.deferred import Linear
from ..part_registry import Part, PartConfig, Parts

__all__ = ["SCORES", "Score", "ScoreConfig", "build_score", "projection", "register_score"]


@dataclass
class ScoreConfig(PartConfig):
    """Options of a score; the scores of the package have the prefix ``attention_score``."""

    prefix: ClassVar[str] = "attention_score"


class Score(Part):
    """How well a decoder state fits an encoding.

    Args:
        query_dim: units of a query, Ds
        memory_dim: units of an encoding, Dh
        config: the options of the class

    Raises:
        OptionError: dimensions that the score cannot compare, or options with wrong values
    """

    def __init__(self, query_dim: int, memory_dim: int, config: PartConfig):
        super().__init__(config)
        self.gain: Optional[nn.Parameter] = None

    def precompute(self, encodings: Tensor) -> Tensor:
        """Keys ``[B, N, Dk]`` of encodings ``[B, N, Dh]``, once per sentence."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores ``[B, T, N]`` of queries ``[B, T, Ds]`` and keys."""
        raise NotImplementedError

    def scaled(self, x: Tensor) -> Tensor:
        """``x`` times the gain, where the score has one."""
        return x if self.gain is None else self.gain * x


SCORES: Parts[Score] = Parts("score", "score")
register_score = SCORES.register


def build_score(name: str, query_dim: int, memory_dim: int, **options: Any) -> Score:
    """The score ``name``, with options by full name.

    Raises:
        OptionError: unknown name, dimensions that the score cannot compare, or a wrong value
    """
    return SCORES.find(name)(query_dim, memory_dim, SCORES.configure(name, options))


def projection(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A linear layer drawn uniformly from [-0.1, 0.1], as stock fairseq's LSTM and the papers draw all parameters."""
    layer = Linear(inputs, outputs, bias=bias)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    return layer
