"""What the steps of a decoder read, hand on and return; R rows, T steps, N source positions."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional

from torch import Tensor

from ..attention import Penalty, index_rows
from .source_memory import SourceMemory, follow


class DecoderInputs(NamedTuple):
    """What the steps of one call read."""

    embeddings: Tensor  # [R, T, E]
    positions: Tensor  # [R, T], the number of each step, from 0
    words: Optional[Tensor]  # [R, T], for an attention that reads words
    are_gates: bool = False  # the embeddings are their share of the first layer's gates, see recurrence.gates_of_words


class DecoderState(NamedTuple):
    """What one decoder step hands to the next; one row per hypothesis."""

    hidden: Tensor  # [R, layers, Ds]
    cell: Optional[Tensor]  # [R, layers, Ds]; None in a GRU
    feed: Optional[Tensor]  # [R, F], fed to the first layer; None without input feeding
    attention: Any  # the attention's own state, tensors of R rows, or None
    alignment: Any = None  # what first-order alignments carry, tensors of R rows


class Decoded(NamedTuple):
    """The result of the recurrence over T steps."""

    features: Tensor  # [R, T, F], see LSTMDecoder.combine
    weights: Optional[Tensor]  # [R, T, N], of the attention
    scores: Optional[Tensor]  # [R, T, N], before its normaliser
    state: DecoderState  # after the last step
    penalties: Optional[Dict[str, Penalty]] = None  # of the attention, where whole targets were decoded


class Progress(NamedTuple):
    """What incremental decoding keeps between two calls, in fairseq's incremental state."""

    state: DecoderState
    memory: SourceMemory
    weights: List[Tensor]  # of the recurrence, see recurrence.step_weights; kept in a search by a decoder with a loop

    def reorder(self, new_order: Tensor) -> Progress:
        """The progress of the hypotheses that survive a step of beam search, ``new_order`` ``[R']`` of R rows."""
        rows, sentences = follow(self.memory.rows, new_order)
        memory = self.memory._replace(rows=rows) if sentences is None else self.memory.select(rows, sentences)
        return self._replace(state=index_rows(self.state, new_order), memory=memory)
