"""Several models that translate together: the mean of their probabilities, and of their attention."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor

from .stepper import Stepper

__all__ = ["Ensemble"]


class Ensemble:
    """One or more steppers during the search of a batch.

    Args:
        steppers: the models
        net_input: fairseq's batch
        prefix: ``[B, P]``, words with which the translations must begin, or None

    Attributes:
        vocabulary: the words ``[K]`` to choose from, ascending; None: all
    """

    def __init__(self, steppers: Sequence[Stepper], net_input: Dict[str, Any], prefix: Optional[Tensor]):
        self.steppers = steppers
        self.states: List[Any] = [stepper.begin(net_input, prefix) for stepper in steppers]
        self.vocabulary: Optional[Tensor] = self.states[0].vocabulary

    def step(self, tokens: Tensor, step: int) -> Tuple[Tensor, Optional[Tensor]]:
        """log p ``[R, K]`` of the next word after ``tokens`` ``[R]``, to be written into, and attention ``[R, N]``."""
        log_probs: List[Tensor] = []
        attention: Optional[Tensor] = None
        for i, stepper in enumerate(self.steppers):
            (logits, normalized, weights), self.states[i] = stepper.step(tokens, self.states[i], step)
            log_probs.append(logits if normalized else logits.log_softmax(-1))
            if weights is not None:
                attention = weights if attention is None else attention + weights
        if len(log_probs) == 1:
            return log_probs[0], attention
        mean = torch.stack(log_probs).logsumexp(0).sub_(math.log(len(log_probs)))
        return mean, None if attention is None else attention / len(log_probs)

    def select(self, rows: Tensor, sentences: Optional[Tensor]) -> None:
        """Keeps the rows that go on; see :meth:`Stepper.select`."""
        self.states = [
            stepper.select(state, rows, sentences) for stepper, state in zip(self.steppers, self.states, strict=True)
        ]
