"""Lets a model compute the losses of its words, so that the logits of a batch are never held.

A criterion of fairseq takes logits from the model and sums the losses of the words. The models of this package form
both together, block by block (:mod:`fairseq_attn_plugin.ops.likelihoods.vocabulary_loss`), if their criterion asks for
it. The loss is a part of the model's forward pass, because data-parallel wrappers see only that.
"""

from typing import Any, Dict, Optional

from torch import Tensor

from ..models.attn_lstm import AttnLSTMModel
from ..ops.likelihoods.vocabulary_loss import Targets, VocabularyLoss


def unwrapped(model: Any) -> Any:
    """The model inside its data-parallel wrappers."""
    while hasattr(model, "module"):
        model = model.module
    return model


def sums_losses(model: Any) -> bool:
    """Whether a model returns the loss of ``targets`` instead of logits."""
    inner = unwrapped(model)
    return isinstance(inner, AttnLSTMModel) and inner.decoder.sums_losses


def ask_for_loss(sample: Dict[str, Any], pad: int, smoothing: float = 0.0, ignored_prefix: int = 0) -> Dict[str, Any]:
    """A batch like ``sample`` that asks the model for the loss of all target words but the first ``ignored_prefix``."""
    words: Tensor = sample["target"]
    if ignored_prefix:
        words = words.clone()
        words[:, :ignored_prefix] = pad
    return {**sample, "net_input": {**sample["net_input"], "targets": Targets(words, pad, smoothing)}}


def loss_in(output: Any) -> Optional[VocabularyLoss]:
    """The loss in the output of a model, or None if it has logits."""
    first = output[0] if isinstance(output, tuple) and len(output) else None
    return first if isinstance(first, VocabularyLoss) else None
