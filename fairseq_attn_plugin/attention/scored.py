"""The base class of mechanisms that score source positions: score, add biases, turn scores into weights, average.

A mechanism derives from :class:`ScoredAttention` and defines what it keeps of a sentence, how it scores, and, unless
``--attention-normalizer`` decides it, how scores become weights. Biases (:mod:`fairseq_attn_plugin.attention.biases`)
and division by the maximum then work with it.
"""

from typing import Any, ClassVar, Dict, Optional

from torch import Tensor

from ..ops.deferred import matmul
from .base import Attention, AttentionConfig, AttentionOutput, Penalty
from .biases import Biases, BiasState, parse_biases
from .normalizers import NORMALIZERS, divide_by_maximum
from .scores import SCORES


class ScoredAttention(Attention):
    """scores = score(s, h_j) + biases,   a = weigh(scores),   c = sum_j a_j h_j.

    With ``--attention-max-normalize`` a = weigh(scores) / max_j weigh(scores)_j. Biases that depend on earlier steps
    read the weights that were used, a.

    The memory of a derived class is a NamedTuple with at least the fields ``encodings``, ``keys`` (unless it defines
    ``_score``), ``pad_mask`` and ``bias`` (default None).
    """

    takes = frozenset({"bias", "max_normalize", "normalizer"})
    default_score: ClassVar[str] = "general"

    def __init__(self, query_dim: int, memory_dim: int, config: AttentionConfig):
        super().__init__(query_dim, memory_dim, config)
        self.score = SCORES.build(config.score or self.default_score, query_dim, memory_dim, **config.of_parts)
        self.normalize = NORMALIZERS.build(config.normalizer, **config.of_parts)
        self.sparse = self.sparse or self.normalize.sparse
        chosen = parse_biases(config.bias)
        self.biases = Biases(chosen, query_dim, memory_dim, config.of_parts) if chosen else None
        if self.biases is not None:
            self.recurrent = self.recurrent or self.biases.recurrent

    def _memorize(self, encodings: Tensor, pad_mask: Optional[Tensor]) -> Any:
        """What :meth:`precompute` keeps of a batch of sentences; the biases add their own part."""
        raise NotImplementedError

    def _score(self, query: Tensor, memory: Any) -> Tensor:
        """Scores ``[B, T, N]`` of queries ``[B, T, Ds]``, by default with ``memory.keys``; meaningless on padding."""
        return self.score(query, memory.keys)

    def _weigh(self, scores: Tensor, query: Tensor, memory: Any, positions: Optional[Tensor]) -> Tensor:
        """Weights ``[B, T, N]``, zero on padding, of scores to which the biases are added."""
        return self.normalize(scores, position_mask(memory.pad_mask))

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor] = None) -> Any:
        memory = self._memorize(encodings, pad_mask)
        return memory if self.biases is None else memory._replace(bias=self.biases.precompute(encodings, pad_mask))

    def initial_state(self, memory: Any) -> Optional[BiasState]:
        return None if self.biases is None else self.biases.initial_state(memory.encodings)

    def step(
        self,
        query: Tensor,
        memory: Any,
        state: Optional[BiasState] = None,
        positions: Optional[Tensor] = None,
    ) -> AttentionOutput:
        scores = self._biased_score(query, memory, state, positions)
        # Charalampous and Chatzis, eq. 4; of the column means of Psi, eq. 9
        weights = self._weigh(scores, query, memory, positions)
        if self.config.max_normalize:
            weights = divide_by_maximum(weights)
        context = matmul(weights, memory.encodings)  # the same, eqs. 3 and 7; in a density matrix eq. 8
        return AttentionOutput(context, weights, scores, self.advance(state, weights))

    def _biased_score(
        self, query: Tensor, memory: Any, state: Optional[BiasState], positions: Optional[Tensor]
    ) -> Tensor:
        """Scores ``[B, T, N]`` to which the biases are added."""
        scores = self._score(query, memory)
        return scores if self.biases is None else scores + self.biases(query, memory.bias, state, positions)

    def advance(self, state: Optional[BiasState], weights: Tensor) -> Optional[BiasState]:
        return state if self.biases is None else self.biases.advance(state, weights)

    def penalties(self, memory: Any, weights: Tensor, step_mask: Optional[Tensor] = None) -> Dict[str, Penalty]:
        return {} if self.biases is None else self.biases.penalties(memory.bias, weights, step_mask)

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
        if not self.scores_are_logits:
            return super().log_weights(weights, scores, pad_mask)
        return self.normalize.log_weights(weights, scores, position_mask(pad_mask))


def position_mask(pad_mask: Optional[Tensor]) -> Optional[Tensor]:
    """``[B, N]`` to the ``[B, 1, N]`` that goes with scores."""
    return None if pad_mask is None else pad_mask.unsqueeze(1)
