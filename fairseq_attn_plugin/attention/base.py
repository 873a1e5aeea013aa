"""The contract that every attention mechanism keeps.

Shapes: B sentences, N source positions, T queries, Dh memory units, Ds query units; batch first; masks are True on
padding.

    attention = build_attention(name, query_dim=Ds, memory_dim=Dh, **options)
    memory    = attention.precompute(encodings, pad_mask)            # once per source sentence
    state     = attention.initial_state(memory)                      # None, or a NamedTuple of tensors
    output    = attention.step(query, memory, state, positions)      # context, weights, scores, state

T counts queries that do not depend on each other: all decoder steps at once for a mechanism without recurrence, or
the hypotheses of one step in beam search. ``memory`` holds one entry per sentence, never one per hypothesis.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Optional, Type, TypeVar

from torch import Tensor, nn

from .normalizers import log_of_weights, log_softmax

__all__ = ["Attention", "AttentionConfig", "AttentionOutput", "index_rows"]

Tensors = TypeVar("Tensors")


class AttentionOutput(NamedTuple):
    """What :meth:`Attention.step` returns."""

    context: Tensor  # [B, T, Dh], sum_j weights_tj h_j
    weights: Tensor  # [B, T, N], zero on padding
    scores: Tensor  # [B, T, N], before the normaliser; meaningless on padding
    state: Any  # for the next step


@dataclass
class AttentionConfig:
    """Options of a mechanism. A field ``x`` of a class with prefix ``p`` is ``--p-x`` on the command line and
    ``p_x`` in YAML.

    A mechanism with options of its own derives from this class, sets ``prefix`` and adds fields with a ``help`` in
    their metadata.
    """

    prefix: ClassVar[str] = "attention"

    score: Optional[str] = field(
        default=None,
        metadata={"help": "score function: dot, scaled_dot, general or additive (default: the mechanism's own)"},
    )
    normalizer: str = field(
        default="softmax", metadata={"help": "scores to weights: softmax, sparsemax or entmax15 (default: softmax)"}
    )
    hidden_dim: Optional[int] = field(
        default=None, metadata={"help": "width of the additive score (default: the decoder's hidden size)"}
    )


class Attention(nn.Module):
    """Base class of all mechanisms; see the module's text for the contract.

    Attributes:
        Config: dataclass of the mechanism's options
        recurrent: whether a step needs the state that the step before it returned; then T is 1 in time
        normalized: whether the weights of a sentence with at least one word sum to one
        scores_are_logits: whether the weights are the chosen normaliser of the scores that ``step`` returns
    """

    Config: ClassVar[Type[AttentionConfig]] = AttentionConfig
    recurrent: ClassVar[bool] = False
    normalized: ClassVar[bool] = True
    scores_are_logits: ClassVar[bool] = False

    def __init__(self, query_dim: int, memory_dim: int, config: AttentionConfig):
        super().__init__()
        self.query_dim, self.memory_dim, self.config = query_dim, memory_dim, config

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor] = None) -> Any:
        """All work that does not depend on the query.

        Args:
            encodings: ``[B, N, Dh]``
            pad_mask: ``[B, N]``, True on padding; None says that there is none

        Returns:
            a NamedTuple of tensors (or None) whose first dimension is B
        """
        raise NotImplementedError

    def initial_state(self, memory: Any) -> Any:
        """State before the first step: None, or a NamedTuple of ``[B, T, ...]`` tensors."""
        return None

    def step(
        self, query: Tensor, memory: Any, state: Any = None, positions: Optional[Tensor] = None
    ) -> AttentionOutput:
        """Attends from T queries.

        Args:
            query: ``[B, T, Ds]``
            memory: from :meth:`precompute`
            state: from :meth:`initial_state` or the previous step
            positions: ``[B, T]``, the decoder step of each query, from 0; for mechanisms that use positions
        """
        raise NotImplementedError

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
        """log p(z = j) where the weights are read as the distribution of a latent alignment z.

        Args:
            weights: ``[B, T, N]`` of :meth:`step`
            scores: ``[B, T, N]`` of the same call
            pad_mask: ``[B, N]``

        Returns:
            ``[B, T, N]`` in float32 or better; ``LOG_ZERO`` (exp of it is zero) on padding. From the scores where the
            weights are their softmax, which stays exact when a weight underflows.
        """
        mask = None if pad_mask is None else pad_mask.unsqueeze(1)
        if self.scores_are_logits and self.config.normalizer == "softmax":
            return log_softmax(scores, mask)
        return log_of_weights(weights, mask)


def index_rows(tensors: Tensors, index: Tensor) -> Tensors:
    """Selects rows (dimension 0) of every tensor of a memory or state: the one function behind beam reordering."""
    if tensors is None:
        return tensors
    rows = (None if t is None else t.index_select(0, index) for t in tensors)  # type: ignore[attr-defined]
    return type(tensors)(*rows)
