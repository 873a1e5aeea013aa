"""What a search knows of a model: a :class:`Stepper`.

A search translates B sentences. It begins with one row for each sentence, and after its first step each sentence has
``beam`` neighbouring rows, its hypotheses; R counts the rows. For each step it calls

    output, state = stepper.step(tokens, state, step)            # [R], the last word of each row
    state = stepper.select(state, rows, sentences)               # the rows that go on

An ensemble is several steppers, whose probabilities the search averages. :class:`ModelStepper` is the plain one, over
the encoder and decoder of any translation model of this package.
"""

from __future__ import annotations

from typing import Any, Dict, NamedTuple, Optional, Protocol, Tuple, Union

import torch
from torch import Tensor

from ..attention import index_rows
from ..models.attn_lstm import AttnLSTMModel
from ..modules.decoder_state import Progress
from ..modules.recurrent_decoder import POSITION, PROGRESS

__all__ = ["ModelState", "ModelStepper", "StepOutput", "Stepper", "is_ours"]


class StepOutput(NamedTuple):
    """What one step says about the next word of R rows, K words of the vocabulary to choose from."""

    logits: Tensor  # [R, K] float32, of this step alone: the search writes into it
    normalized: bool  # whether they are log-probabilities; otherwise the search subtracts their logsumexp
    weights: Optional[Tensor]  # [R, N], of the attention; None where they are not wanted


class Stepper(Protocol):
    """A model as a search uses it. States are opaque but for one attribute, see :meth:`begin`."""

    def begin(self, net_input: Dict[str, Any], prefix: Optional[Tensor] = None) -> Any:
        """Encodes a batch, once.

        Args:
            net_input: of fairseq's batch: ``src_tokens`` ``[B, N]`` and ``src_lengths`` ``[B]``
            prefix: ``[B, P]``, words with which the translations must begin, with padding; for a shortlist

        Returns:
            the state of B rows, one for each sentence. Its attribute ``vocabulary`` is None, and K is V, or the
            ascending indices ``[K]`` of the target words to choose from.
        """
        ...

    def step(self, tokens: Tensor, state: Any, step: int) -> Tuple[StepOutput, Any]:
        """One decoder step.

        Args:
            tokens: ``[R]``, the last word of each row, an index of the whole vocabulary
            state: of :meth:`begin`, of the last step or of :meth:`select`; not to be used again
            step: from 0
        """
        ...

    def select(self, state: Any, rows: Tensor, sentences: Optional[Tensor] = None) -> Any:
        """The state of the rows that go on.

        Args:
            state: of the last step
            rows: ``[R']``, the old row that each new row continues. A sentence's rows stay together, in equal number
                for all sentences
            sentences: ``[B']``, ascending, the old numbers of the sentences that stay; None if all of them stay
        """
        ...


class ModelState(NamedTuple):
    """The state of a :class:`ModelStepper`."""

    encoder_out: Dict[str, Any]
    incremental: Dict[str, Any]
    vocabulary: Optional[Tensor] = None


def is_ours(model: Any) -> bool:
    """Whether a model has a stepper."""
    return isinstance(model, AttnLSTMModel)


class ModelStepper:
    """The plain stepper: the model's own encoder and decoder, with fairseq's incremental state.

    What depends on the source exists once per sentence (:mod:`fairseq_attn_plugin.modules.source_memory`).

    Args:
        model: a translation model of this package, in evaluation mode
        temperature: divides the logits
    """

    def __init__(self, model: Any, temperature: float = 1.0):
        self.model, self.temperature = model, temperature

    def begin(self, net_input: Dict[str, Any], prefix: Optional[Tensor] = None) -> ModelState:
        return ModelState(self.model.encoder.forward_torchscript(net_input), {})

    def step(self, tokens: Tensor, state: ModelState, step: Union[int, Tensor]) -> Tuple[StepOutput, ModelState]:
        """As :meth:`Stepper.step`; the number of the step may be a tensor ``[1]``."""
        words, decoder, incremental = tokens.unsqueeze(1), self.model.decoder, dict(state.incremental)
        if isinstance(step, Tensor):
            incremental[POSITION] = step
        elif step:  # the decoder reads the last column, and the number of the step from the width
            words = words.expand(-1, step + 1)
        out, extra = decoder(words, encoder_out=state.encoder_out, incremental_state=incremental)
        incremental.pop(POSITION, None)
        state = state._replace(incremental=incremental)
        (weights,) = extra["attn"]
        if self.temperature != 1.0:
            out = out / self.temperature  # also the features of an adaptive softmax, as fairseq does
        normalized = decoder.adaptive_softmax is not None
        if normalized:
            out = self.model.get_normalized_probs((out, None), log_probs=True)
        weights = None if weights is None else weights[:, -1]
        return StepOutput(out[:, -1].float(), normalized, weights), state

    def select(self, state: ModelState, rows: Tensor, sentences: Optional[Tensor] = None) -> ModelState:
        decoder, encoder_out = self.model.decoder, state.encoder_out
        progress: Progress = decoder.get_incremental_state(state.incremental, PROGRESS)
        memory = progress.memory
        if sentences is not None:
            encoder_out = {
                name: None if value is None else value.index_select(0, sentences)
                for name, value in encoder_out.items()
                if name != "rows"
            }
        if sentences is not None or len(rows) != len(memory.rows):
            count = len(encoder_out["encodings"])
            of_rows = torch.arange(count, device=rows.device).repeat_interleave(len(rows) // count)
            encoder_out = {**encoder_out, "rows": of_rows}
            memory = memory._replace(rows=of_rows) if sentences is None else memory.select(of_rows, sentences)
        incremental = dict(state.incremental)
        progress = progress._replace(state=index_rows(progress.state, rows), memory=memory)
        decoder.set_incremental_state(incremental, PROGRESS, progress)
        return ModelState(encoder_out, incremental, state.vocabulary)
