"""The contract that every attention mechanism keeps.

Shapes: B sentences, N source positions, T queries, Dh memory units, Ds query units; batch first; masks are True on
padding.

    attention = build_attention(name, query_dim=Ds, memory_dim=Dh, **options)
    memory    = attention.precompute(encodings, pad_mask)            # once per source sentence
    state     = attention.initial_state(memory)                      # None, or a NamedTuple of tensors
    output    = attention.step(query, memory, state, positions)      # context, weights, scores, state

A mechanism that takes ``words`` also sees words: ``precompute(..., source_tokens=...)`` ``[B, N]`` and
``step(..., inputs=...)`` ``[B, T]``, the decoder's input word of each query.

T counts queries that do not depend on each other: all decoder steps at once for a mechanism without recurrence, or
the hypotheses of one step in beam search. ``memory`` holds one entry per sentence, never one per hypothesis. It is
opaque to callers: they hand it back to ``initial_state``, ``step`` and ``penalties``, and select sentences from it with
:func:`~fairseq_attn_plugin.attention.index_rows`.

:func:`fairseq_attn_plugin.testing.check_attention` checks that a mechanism keeps the contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Callable, ClassVar, Dict, FrozenSet, Mapping, NamedTuple, Optional, Tuple, Type, TypeVar

import torch
from torch import Tensor, nn

from ..errors import OptionError
from ..options import flag, option
from .normalizers import log_of_weights, log_softmax

# What Attention.takes may name.
TAKES = frozenset({"bias", "documents", "max_normalize", "normalizer", "words"})


class AttentionOutput(NamedTuple):
    """What :meth:`Attention.step` returns."""

    context: Tensor  # [B, T, Dh], sum_j weights_tj h_j
    weights: Tensor  # [B, T, N], zero on padding; finite for a sentence without words
    scores: Tensor  # [B, T, N], before the normaliser; meaningless on padding
    state: Any  # for the next step


class Penalty(NamedTuple):
    """A term that a mechanism adds to the training loss, by a name that ends in ``_penalty``; or, with weight 0 and a
    name that ends in ``_statistic``, a quantity that is only logged."""

    value: Tensor  # summed over the target words, a penalty in nats; a penalty of parameters for one word
    weight: float  # its factor in the loss


@dataclass
class AttentionConfig:
    """Options of a mechanism. A field ``x`` of a class with prefix ``p`` is ``--p-x`` on the command line and
    ``p_x`` in YAML.

    A mechanism with options of its own derives from this class, sets ``prefix`` and adds fields
    (:func:`fairseq_attn_plugin.options.option`, or ``dataclasses.field`` with a ``help`` in the metadata).
    """

    prefix: ClassVar[str] = "attention"

    # values of options of scores, normalisers and biases, by full name; build_attention sets them on an instance
    of_parts: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    score: Optional[str] = option(None, "score function (default: the mechanism's own)")
    normalizer: str = option("softmax", "scores to weights (default: softmax)")
    max_normalize: bool = option(
        False,
        "divide the weights by the greatest of them, in training and in translation, instead of leaving "
        "their sum at one",
    )
    bias: str = option("", "added to the scores; several are separated by commas (default: none)")


class Attention(nn.Module):
    """Base class of all mechanisms; see the module's text for the contract.

    Attributes:
        Config: dataclass of the mechanism's options
        name: the name under which it is registered
        takes: what the mechanism can use:

            - ``bias``: it has scores, to which ``--attention-bias`` adds
            - ``normalizer``: ``--attention-normalizer`` chooses how its scores become weights
            - ``max_normalize``: ``--attention-max-normalize`` may divide its weights
            - ``words``: it reads source and target words; see the module's text
            - ``documents``: it can pool a document by one trained query, without target words or positions

        to_normalize: what a user does to make its weights sum to one, for messages; empty if nothing helps
        recurrent: whether a step needs the state that the previous step returned; then T is 1 in time
        normalized: whether the weights of a sentence with at least one word sum to one
        sparse: whether weights of real positions may be exactly zero
        scores_are_logits: whether the weights are the chosen normaliser of the scores that ``step`` returns
        hard_in_evaluation: whether evaluation chooses positions where training has their expectation
        noise: size of the random numbers of a training step, which :mod:`fairseq_attn_plugin.testing` sets to zero

    The last six may depend on options.

    Raises:
        OptionError: options that the mechanism cannot take
    """

    Config: ClassVar[Type[AttentionConfig]] = AttentionConfig
    name: ClassVar[str] = ""
    takes: ClassVar[FrozenSet[str]] = frozenset()
    to_normalize: ClassVar[str] = ""
    recurrent: bool = False
    normalized: bool = True
    sparse: bool = False
    scores_are_logits: bool = False
    hard_in_evaluation: bool = False
    noise: float = 0.0

    def __init__(self, query_dim: int, memory_dim: int, config: AttentionConfig):
        super().__init__()
        self.config = config
        normalizer = "" if config.normalizer == "softmax" else config.normalizer
        for name, given, value, why in (
            ("bias", config.bias, f" {config.bias}", "has no scores to add a bias to"),
            ("normalizer", normalizer, f" {normalizer}", "defines how scores become weights"),
            ("max_normalize", config.max_normalize, "", "cannot divide its weights by their maximum"),
        ):
            if given and name not in self.takes:
                raise OptionError(
                    f"{flag('attention_' + name)}{value}: {self.name} attention {why}; leave it out, or choose "
                    "another --attention"
                )
        if config.max_normalize:
            self.normalized = self.scores_are_logits = False

    @property
    def needs_words(self) -> bool:
        """Whether ``precompute`` takes ``source_tokens`` and ``step`` takes ``inputs``."""
        return "words" in self.takes

    def read_files(self, source_dictionary: Any, target_dictionary: Any) -> None:
        """Reads the files that options name (fields with ``file=True`` in their metadata), before training starts.

        What is read becomes part of the state dictionary, so that a checkpoint needs no files. By default there is
        nothing to read. The dictionaries are fairseq's.

        Raises:
            OptionError: files that are missing, malformed, or made for other dictionaries
        """

    def precompute(self, encodings: Tensor, pad_mask: Optional[Tensor] = None) -> Any:
        """All work that does not depend on the query.

        Args:
            encodings: ``[B, N, Dh]``
            pad_mask: ``[B, N]``, True on padding; None without padding

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

    def advance(self, state: Any, weights: Tensor) -> Any:
        """The state after a step that began with ``state``, had it had the weights ``[B, T, N]``.

        Models whose weights are known only after the step (``--arch lstm_posterior``) call it. A recurrent mechanism
        defines it; of others the state is None.
        """
        return state

    def for_export(self) -> Attention:
        """A mechanism with the same parameters and results whose operations do not depend on sizes or values.

        ``torch.onnx.export`` records operations for one batch; what Python decides by its sizes or values becomes
        constant. Memory and state may differ from this mechanism's. By default the mechanism itself.
        """
        return self

    def penalties(self, memory: Any, weights: Tensor, step_mask: Optional[Tensor] = None) -> Dict[str, Penalty]:
        """Terms of the training loss that depend on the weights of whole sentences, by name.

        Args:
            memory: from :meth:`precompute`
            weights: ``[B, T, N]``, of all steps
            step_mask: ``[B, T]``, True on steps beyond a sentence's end
        """
        return {}

    def parameter_penalties(self) -> Dict[str, Penalty]:
        """Terms of the loss per word, or per sentence with ``--sentence-avg``, that depend on parameters only, by
        name."""
        return {}

    def log_weights(self, weights: Tensor, scores: Tensor, pad_mask: Optional[Tensor] = None) -> Tensor:
        """log p(z = j) where the weights are read as the distribution of a latent alignment z.

        Args:
            weights: ``[B, T, N]`` of :meth:`step`
            scores: ``[B, T, N]`` of the same call
            pad_mask: ``[B, N]``

        Returns:
            ``[B, T, N]`` in float32 or better; ``LOG_ZERO`` (exp of it is zero) on padding. Computed from the scores
            where the weights are their softmax, which stays exact when a weight underflows.
        """
        mask = None if pad_mask is None else pad_mask.unsqueeze(1)
        return log_softmax(scores, mask) if self.scores_are_logits else log_of_weights(weights, mask)


Tensors = TypeVar("Tensors")  # of a memory or state: None, a tensor, NamedTuples, tuples, lists or dictionaries


def map_tensors(function: Callable[[Tensor], Tensor], tensors: Tensors) -> Tensors:
    """Applies ``function`` to every tensor of a memory or state."""
    if tensors is None:
        return tensors
    if isinstance(tensors, Tensor):
        return function(tensors)  # type: ignore[return-value]
    if isinstance(tensors, dict):
        return {name: map_tensors(function, part) for name, part in tensors.items()}  # type: ignore[return-value]
    parts = [map_tensors(function, part) for part in tensors]  # type: ignore[attr-defined]
    return type(tensors)(*parts) if hasattr(tensors, "_fields") else type(tensors)(parts)  # type: ignore


def index_rows(tensors: Tensors, index: Tensor) -> Tensors:
    """Selects rows (dimension 0) of every tensor of a memory or state. Beam search reorders with it."""
    return map_tensors(lambda tensor: tensor.index_select(0, index), tensors)


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
