"""Score functions: how well a decoder state s fits an encoding h_j.

    dot         s . h_j                          (Luong et al. 2015)
    scaled_dot  s . h_j / sqrt(D)                (Vaswani et al. 2017)
    general     s . (W h_j)                      (Luong et al. 2015; "bilinear"), or g s . (W h_j)
    additive    u . tanh(W s + V h_j + b)        (Bahdanau et al. 2015; "MLP"), or without b

The gain g (``--attention-score-gain``) is a trained number that starts at 1, as in the "scaled Luong" attention of
TensorFlow's seq2seq tutorial (Luong, Brevdo and Zhao 2017).

A score is split in two: :meth:`Score.precompute` makes one key per encoding, :meth:`Score.forward` compares
queries with keys.
"""

from __future__ import annotations

import math
from typing import Callable, ClassVar, Dict, FrozenSet, List, Optional, Type

import torch
from torch import Tensor, nn

from ..errors import OptionError
from ..ops.deferred import Linear, matmul_transposed
from ..ops.tanh import by_sigmoid
from ..options import flag

__all__ = ["Score", "build_score", "projection", "register_score", "score_names"]

_SCORES: Dict[str, Type[Score]] = {}


class Score(nn.Module):
    """``precompute``: encodings ``[B, N, Dh]`` to keys ``[B, N, Dk]``; ``forward``: queries ``[B, T, Ds]`` and
    keys to ``[B, T, N]``. ``takes`` names the options of the class besides the dimensions, see :func:`build_score`."""

    takes: ClassVar[FrozenSet[str]] = frozenset()

    def __init__(self, query_dim: int, memory_dim: int, hidden_dim: Optional[int] = None):
        super().__init__()
        self.gain: Optional[nn.Parameter] = None

    def precompute(self, encodings: Tensor) -> Tensor:
        raise NotImplementedError

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        raise NotImplementedError

    def scaled(self, x: Tensor) -> Tensor:
        """``x`` times the gain, where the score has one."""
        return x if self.gain is None else self.gain * x


def projection(inputs: int, outputs: int, bias: bool = True) -> nn.Linear:
    """A linear layer drawn uniformly from [-0.1, 0.1], as stock fairseq's LSTM and the papers draw all parameters."""
    layer = Linear(inputs, outputs, bias=bias)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, -0.1, 0.1)
    return layer


def register_score(name: str) -> Callable[[Type[Score]], Type[Score]]:
    """Class decorator that makes a score available as ``--attention-score NAME``."""

    def register(cls: Type[Score]) -> Type[Score]:
        if name in _SCORES:
            raise ValueError(f"the score {name!r} is registered already, by {_SCORES[name].__name__}")
        _SCORES[name] = cls
        return cls

    return register


def score_names() -> List[str]:
    return sorted(_SCORES)


def build_score(name: str, query_dim: int, memory_dim: int, hidden_dim: Optional[int] = None, **wanted: bool) -> Score:
    """The score ``name``.

    Args:
        name: of the score
        query_dim, memory_dim: units of queries and encodings
        hidden_dim: width of a score with a hidden layer
        wanted: further arguments of the score, options ``--attention-score-...``; a score may take them or not

    Raises:
        OptionError: unknown name, dimensions that the score cannot compare, or an option that it does not take
    """
    if name not in _SCORES:
        raise OptionError(f"--attention-score {name}: unknown score; choose from {', '.join(score_names())}")
    if hidden_dim is not None and hidden_dim < 1:
        raise OptionError(f"--attention-hidden-dim {hidden_dim}: must be at least 1")
    further = {key: True for key, value in wanted.items() if value}
    for key in further.keys() - _SCORES[name].takes:
        taking = " or ".join(score for score in score_names() if key in _SCORES[score].takes)
        raise OptionError(
            f"{flag('attention_score_' + key)}: is for the score {taking}, and this attention has --attention-score "
            f"{name}; leave one of the two out"
        )
    return _SCORES[name](query_dim, memory_dim, hidden_dim, **further)


@register_score("dot")
class DotScore(Score):
    name = "dot"

    def __init__(self, query_dim: int, memory_dim: int, hidden_dim: Optional[int] = None):
        super().__init__(query_dim, memory_dim, hidden_dim)
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
    name = "scaled_dot"

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query * (1 / math.sqrt(query.size(-1))), keys)


@register_score("general")
class GeneralScore(Score):
    """W and the gain are applied to the encodings, once per sentence, and not to every query."""

    takes = frozenset({"gain"})

    def __init__(self, query_dim: int, memory_dim: int, hidden_dim: Optional[int] = None, gain: bool = False):
        super().__init__(query_dim, memory_dim, hidden_dim)
        self.projection = projection(memory_dim, query_dim, bias=False)
        if gain:
            self.gain = nn.Parameter(torch.ones(()))

    def precompute(self, encodings: Tensor) -> Tensor:
        return self.scaled(self.projection(encodings))

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return matmul_transposed(query, keys)


@register_score("additive")
class AdditiveScore(Score):
    """``no_bias`` leaves b out, as the prior of Deng et al. 2018 does."""

    takes = frozenset({"no_bias"})

    def __init__(self, query_dim: int, memory_dim: int, hidden_dim: Optional[int] = None, no_bias: bool = False):
        super().__init__(query_dim, memory_dim, hidden_dim)
        hidden_dim = hidden_dim or query_dim
        self.query_projection = projection(query_dim, hidden_dim, bias=False)
        self.memory_projection = projection(memory_dim, hidden_dim, bias=not no_bias)
        self.vector = nn.Parameter(torch.empty(hidden_dim).uniform_(-0.1, 0.1))

    def precompute(self, encodings: Tensor) -> Tensor:
        return self.memory_projection(encodings)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        # u . tanh(x) = sum_d u_d (2 sigmoid(2 x_d) - 1), see ops/tanh.py: three passes over [B, T, N, A] instead of six
        doubled = 2 * self.query_projection(query)
        if by_sigmoid(doubled):
            gates = torch.add(doubled.unsqueeze(2), keys.unsqueeze(1), alpha=2).sigmoid_()
            return torch.matmul(gates, 2 * self.vector) - self.vector.sum()
        return torch.matmul(torch.tanh(0.5 * doubled.unsqueeze(2) + keys.unsqueeze(1)), self.vector)
