"""Score functions: how well a decoder state s fits an encoding h_j.

    dot         s . h_j                          (Luong et al. 2015)
    scaled_dot  s . h_j / sqrt(D)                (Vaswani et al. 2017)
    general     s . (W h_j)                      (Luong et al. 2015; "bilinear"), or g s . (W h_j)
    additive    u . tanh(W s + V h_j + b)        (Bahdanau et al. 2015; "MLP"), or without b (Deng et al. 2018)

A score is split in two: :meth:`Score.precompute` makes one key per encoding, :meth:`Score.forward` compares
queries with keys. The gain g (``--attention-score-gain``) is a trained number that starts at 1, as in the "scaled
Luong" attention of TensorFlow's seq2seq tutorial (Luong, Brevdo and Zhao 2017). The additive score is equation 5 of
Charalampous and Chatzis, "Quantum Statistics-Inspired Neural Attention".
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Optional

import torch
from torch import Tensor, nn

from ..errors import OptionError
from ..ops.deferred import Linear, matmul_transposed
from ..options import option
from .part_registry import Part, PartConfig, Parts, need_own


@dataclass
class ScoreConfig(PartConfig):
    """Options of a score; the scores of the package have the prefix ``attention_score``."""

    prefix: ClassVar[str] = "attention_score"


class Score(Part):
    """How well a decoder state fits an encoding.

    Args:
        query_dim: units of a query, Ds
        memory_dim: units of an encoding, Dh

    Raises:
        OptionError: dimensions that the score cannot compare, or options with wrong values
    """

    def __init__(self, query_dim: int, memory_dim: int, config: PartConfig):
        super().__init__(config)

    def precompute(self, encodings: Tensor) -> Tensor:
        """Keys ``[B, N, Dk]`` of encodings ``[B, N, Dh]``, once per sentence."""
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        """Scores ``[B, T, N]`` of queries ``[B, T, Ds]`` and keys."""
        raise NotImplementedError


SCORES: Parts[Score] = Parts("attention_score", "score", submodules=True)
register_score = SCORES.register


def projection(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A linear layer drawn uniformly from [-0.1, 0.1], as stock fairseq's LSTM and the papers draw all parameters."""
    layer = Linear(inputs, outputs, bias=bias)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    return layer


@register_score("dot")
class DotScore(Score):
    def __init__(self, query_dim: int, memory_dim: int, config: PartConfig):
        super().__init__(query_dim, memory_dim, config)
        if query_dim != memory_dim:
            raise OptionError(
                f"--attention-score {self.name}: the decoder state has {query_dim} units (--decoder-hidden-size) and "
                f"the source encodings have {memory_dim} (--encoder-hidden-size, doubled by "
                "--encoder-bidirectional); make them equal, or choose general or additive"
            )

    def precompute(self, encodings: Tensor) -> Tensor:
        return encodings

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query, keys)


@register_score("scaled_dot")
class ScaledDotScore(DotScore):
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query * (1 / math.sqrt(query.size(-1))), keys)  # Vaswani et al. 2017, eq. 1


@dataclass
class GeneralConfig(ScoreConfig):
    gain: bool = option(
        False,
        "multiply the general score by a trained number that starts at 1 (scaled Luong attention)",
        before=False,
    )


@register_score("general")
class GeneralScore(Score):
    """W and the gain are applied to the encodings, once per sentence, and not to every query."""

    Config = GeneralConfig

    def __init__(self, query_dim: int, memory_dim: int, config: GeneralConfig):
        super().__init__(query_dim, memory_dim, config)
        self.projection = projection(memory_dim, query_dim, bias=False)
        self.gain = nn.Parameter(torch.ones(())) if config.gain else None

    def scaled(self, x: Tensor) -> Tensor:
        """``x`` times the gain, where the score has one."""
        return x if self.gain is None else self.gain * x

    def precompute(self, encodings: Tensor) -> Tensor:
        return self.scaled(self.projection(encodings))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query, keys)


@dataclass
class WidthConfig(PartConfig):
    prefix: ClassVar[str] = "attention"

    hidden_dim: Optional[int] = option(None, "width of the additive score (default: the decoder's hidden size)")


@dataclass
class AdditiveConfig(ScoreConfig, WidthConfig):
    prefix: ClassVar[str] = "attention_score"

    no_bias: bool = option(False, "additive score without its bias b")


@register_score("additive")
class AdditiveScore(Score):
    Config = AdditiveConfig

    def __init__(self, query_dim: int, memory_dim: int, config: AdditiveConfig):
        super().__init__(query_dim, memory_dim, config)
        need_own(config.hidden_dim is None or config.hidden_dim >= 1, config, "hidden_dim", "at least 1")
        hidden_dim = config.hidden_dim or query_dim
        self.query_projection = projection(query_dim, hidden_dim, bias=False)
        self.memory_projection = projection(memory_dim, hidden_dim, bias=not config.no_bias)
        self.vector = nn.Parameter(torch.empty(hidden_dim).uniform_(-0.1, 0.1))

    def precompute(self, encodings: Tensor) -> Tensor:
        return self.memory_projection(encodings)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        hidden = self.query_projection(query).unsqueeze(2) + keys.unsqueeze(1)
        return torch.matmul(torch.tanh(hidden), self.vector)  # eq. 5
