"""The exact posterior of the alignment, for models that predict from the weighted sum of source encodings.

A model with attention weights a_tj and context c_t = sum_j a_tj h_j reads as a model with a latent alignment z_t (Deng
et al. 2018, "Latent Alignment and Variational Attention"; Shankar et al. 2018, "Surprisingly Easy Hard-Attention for
Sequence to Sequence Learning"), whose output layer predicts from one encoding in the place of the sum:

    p(z_t = j) = a_tj / A_t,   p(y_t | z_t = j) = softmax(W o(A_t h_j, s_t))[y_t],   A_t = sum_j a_tj
    p(z_t = j | x, y_<=t) = p(j) p(y_t | j) / sum_k p(k) p(y_t | k)

A_t is 1 except for attention whose weights do not sum to one. The states s_t are those of the forced translation: they
do not depend on z. A model that was trained with latent alignments has its own posterior, ``bayes``, which is this one.
A soft model was not trained to predict from one encoding, so that p(y_t | j) is what its output layer makes of it.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, NamedTuple

import torch
from torch import Tensor

from fairseq_attn_plugin.analysis.inference.forced import attention, unmoved
from fairseq_attn_plugin.analysis.inference.reweighing import noted
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.modules.recurrent_decoder import RecurrentDecoder

__all__ = ["exact_posterior"]

ROWS = 1024  # words of the whole vocabulary at a time


class _Steps(NamedTuple):
    """What the output layer reads in a forced translation."""

    states: Tensor  # [B, T, Ds], s_t
    encodings: Tensor  # [B, N, Dh], in the columns of the sample
    weights: Tensor  # [B, T, N]
    log_probs: Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]  # see LSTMDecoder.log_probs


@torch.no_grad()
def exact_posterior(model: Any, sample: Dict[str, Any], where: str) -> Tensor:
    """p(z_t = j | x, y_<=t) ``[B, T, N]`` of a batch with its ``target``; zero on padding.

    Raises ``OptionError``, which starts with ``where``, for a model whose output layer does not read one context.
    """
    source, target = sample["net_input"]["src_tokens"], sample["target"]
    if hasattr(model, "forced"):
        found: Tensor = model.forced(source, sample["net_input"]["prev_output_tokens"], target)[1]["bayes"]
        return found.float()
    steps = _steps(model, sample, where)
    result = torch.zeros_like(steps.weights)
    real = source.ne(model.encoder.dictionary.pad())
    for row, (columns, length) in enumerate(zip(real, target.ne(model.decoder.dictionary.pad()).sum(1).tolist())):
        prior = steps.weights[row, :length][:, columns]
        encodings, states = steps.encodings[row, columns], steps.states[row, :length]
        sums = prior.sum(1)
        likelihoods = _log_likelihoods(steps, sums, states, encodings, source[row, columns], target[row, :length])
        result[row, :length, columns] = (prior.log() + likelihoods).softmax(1)
    return result


def _log_likelihoods(
    steps: _Steps, sums: Tensor, states: Tensor, encodings: Tensor, tokens: Tensor, words: Tensor
) -> Tensor:
    """log p(y_t | z_t = j) ``[T, N]`` of one sentence without padding; ``sums`` is A ``[T]``."""
    count = len(encodings)
    result = []
    for pairs in torch.arange(len(words) * count, device=words.device).split(ROWS):
        t, j = pairs // count, pairs % count
        contexts, one_hot = sums[t].unsqueeze(1) * encodings[j], torch.eye(count, device=words.device)[j]
        log_probs = steps.log_probs(contexts[None], states[t][None], one_hot[None], tokens[None])[0]
        result.append(log_probs.float().gather(1, words[t].unsqueeze(1)).squeeze(1))
    return torch.cat(result).view(len(words), count)


def _steps(model: Any, sample: Dict[str, Any], where: str) -> _Steps:
    from fairseq.models.lstm import LSTMDecoder as StockDecoder

    decoder = getattr(model, "decoder", None)
    inputs = {name: value for name, value in sample["net_input"].items() if value is not None}
    if isinstance(decoder, RecurrentDecoder) and decoder.attention is not None:
        encoded: List[Any] = []
        hook = model.encoder.register_forward_hook(lambda _, __, out: encoded.append(out))
        try:
            with noted(decoder) as (states, _):
                output = model(**inputs)
        finally:
            hook.remove()
        weights = attention(model, output, sample, where)
        return _Steps(torch.cat(states, 1), encoded[0]["encodings"], weights, decoder.log_probs)
    if isinstance(decoder, StockDecoder) and decoder.attention is not None:
        reads: List[Any] = []
        hook = decoder.attention.register_forward_hook(lambda _, read, __: reads.append(read))
        try:
            output = model(**inputs)
        finally:
            hook.remove()
        weights = attention(model, output, sample, where)
        encodings = unmoved(model, reads[0][1].permute(1, 2, 0), inputs["src_tokens"]).transpose(1, 2)
        return _Steps(torch.stack([read[0] for read in reads], 1), encodings, weights, _stock_log_probs(decoder))
    raise OptionError(
        f"{where}: --method posterior: a {type(model).__name__} does not predict from one sum of source encodings; "
        "take a recurrent model with attention, or another method"
    )


def _stock_log_probs(decoder: Any) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """The output of stock ``lstm``: its attention's projection, another layer where there is one, its vocabulary."""

    def log_probs(context: Tensor, hidden: Tensor, weights: Tensor, tokens: Tensor) -> Tensor:
        features = torch.tanh(decoder.attention.output_proj(torch.cat([context, hidden], dim=-1)))
        if hasattr(decoder, "additional_fc") and decoder.adaptive_softmax is None:
            features = decoder.additional_fc(features)
        result: Tensor = decoder.get_normalized_probs((decoder.output_layer(features), None), log_probs=True)
        return result

    return log_probs
