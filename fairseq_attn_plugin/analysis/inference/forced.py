"""Forces a translation through a model of fairseq, and returns its log probabilities and attention."""

from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.heads import one_head, transformer_decoder
from fairseq_attn_plugin.errors import OptionError

__all__ = ["Forced", "attention", "force", "unmoved", "weight_names"]


class Forced(NamedTuple):
    """The results for a batch of forced translations."""

    scores: Tensor  # [B, T], natural log p(y_t | y_<t, x); for an ensemble the log of the mean probability
    weights: Dict[str, Tensor]  # [B, T, N] in float32; for an ensemble the mean


def weight_names(models: Sequence[Any]) -> Tuple[str, ...]:
    """Names of the matrices that all models give: ``attention``, and the posteriors of latent alignment models."""
    names = [("attention", *getattr(model, "posteriors", ())) for model in models]
    return tuple(name for name in names[0] if all(name in others for others in names))


def attention(model: Any, output: Any, sample: Dict[str, Any], where: str) -> Tensor:
    """The weights ``[B, T, N]`` of a forward pass, with the columns of the sample's ``src_tokens``.

    Raises ``OptionError``, whose message starts with ``where``, if the output has no such weights.
    """
    weights = output[1].get("attn") if isinstance(output[1], dict) else output[1]
    if isinstance(weights, (list, tuple)):
        weights = weights[0] if len(weights) else None
    source = sample["net_input"]["src_tokens"]
    shape = (*sample["target"].shape, source.size(1))
    if not isinstance(weights, Tensor) or weights.shape != shape:
        raise OptionError(
            f"{where}: a {type(model).__name__} returns no attention of source words for target words; take a model "
            "with attention, such as lstm_soft"
        )
    return unmoved(model, weights.float(), source)


def unmoved(model: Any, weights: Tensor, source: Tensor) -> Tensor:
    """Moves the columns of stock ``lstm``, which pads its sources on the right, back to those of ``source``.

    ``weights`` is ``[B, T, N]``, or anything else with a column for each source position.
    """
    from fairseq.models.lstm import LSTMEncoder

    encoder = getattr(model, "encoder", None)
    if not isinstance(encoder, LSTMEncoder) or not encoder.left_pad:
        return weights
    # fairseq.utils.convert_padding_direction leaves a batch unchanged if it is padded on the right already
    pads = source.eq(encoder.padding_idx)
    shift = (pads.sum(1, keepdim=True) * pads[:, 0].any()).unsqueeze(1)
    columns = (torch.arange(source.size(1), device=source.device) - shift) % source.size(1)
    return weights.gather(2, columns.expand_as(weights))


@torch.no_grad()
def force(
    models: Sequence[Any],
    sample: Dict[str, Any],
    names: Sequence[str],
    where: str,
    layer: Optional[int] = None,
    head: Optional[int] = None,
) -> Forced:
    """Runs one forward pass of every model over a batch with its ``target``.

    Args:
        models: trained models, in evaluation mode
        sample: batch in the form of fairseq's translation dataset
        names: matrices to return, some of :func:`weight_names`
        where: start of error messages
        layer: of a transformer's decoder, from 1 (default: the last)
        head: of this layer, from 1 (default: the mean of its heads)

    Raises:
        OptionError: a model returns no attention ``[B, T, N]``, or has no such layer or head
    """
    scores: List[Tensor] = []
    sums: Dict[str, Tensor] = {}
    target = sample["target"]
    net_input = {name: value for name, value in sample["net_input"].items() if value is not None}
    for model in models:
        if len(names) > 1:
            output, found = model.forced(net_input["src_tokens"], net_input["prev_output_tokens"], target)
        else:
            with one_head(model, layer, head, where) as weights_of_head:
                output = model(**net_input, **_layer(model, layer, where))
            found = {names[0]: weights_of_head.get("head", attention(model, output, sample, where))}
        log_probs = model.get_normalized_probs(output, log_probs=True, sample=sample)
        scores.append(log_probs.float().gather(2, target.unsqueeze(2)).squeeze(2))
        for name in names:
            sums[name] = sums[name] + found[name].float() if name in sums else found[name].float()
    score = torch.stack(scores).logsumexp(0) - math.log(len(models))
    return Forced(score, {name: total / len(models) for name, total in sums.items()})


def _layer(model: Any, layer: Optional[int], where: str) -> Dict[str, int]:
    if layer is None:
        return {}
    layers = len(transformer_decoder(model, f"--layer {layer}", where).layers)
    if not 1 <= layer <= layers:
        raise OptionError(f"--layer {layer}: the decoder of {where} has layers 1 to {layers}")
    return {"alignment_layer": layer - 1}
