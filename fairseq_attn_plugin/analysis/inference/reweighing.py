"""What a decoder would have predicted, had the attention of a step other weights.

The state s_t and everything before step t stay as they are; only the context of step t is another one. So many other
weights can be tried for all steps at once, by the layers after the attention alone:

    p(y_t; a) = the prediction from s_t and sum_j a_j h_j          (of a latent model: from the prior a)

Other weights have the sum of the model's own.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

import torch
from torch import Tensor

from fairseq_attn_plugin.attention import AttentionOutput
from fairseq_attn_plugin.modules.decoder import LSTMDecoder
from fairseq_attn_plugin.modules.recurrent_decoder import RecurrentDecoder

__all__ = ["Asked", "adversarial", "ask", "can_reweigh", "divergence", "noted", "permuted", "uniform", "variation"]

RATE = 0.1  # of Adam
PENALTY = 5.0  # of total variation above the bound; the divergence is at most ln 2


class Asked(NamedTuple):
    """A forced batch, and how its attention was asked."""

    model: Any
    sample: Dict[str, Any]
    encoder_out: Dict[str, Any]
    hidden: Tensor  # [B, T, Ds]
    weights: Tensor  # [B, T, N], the model's own
    real: Tensor  # [B, 1, N], True on words
    probabilities: Tensor  # [B, T, V], p(y_t) of the model's own weights

    def with_weights(self, weights: Tensor) -> Tensor:
        """p(y_t; a) ``[B, T, V]`` of weights a ``[B, T, N]``; differentiable."""
        output = self.model.decoder.predict_with(self.hidden, weights, self.encoder_out)
        found: Tensor = self.model.get_normalized_probs((output, {}), log_probs=False, sample=self.sample)
        return found


def can_reweigh(model: Any) -> bool:
    """Whether a model has an attention, and p(y_t; a) of its own weights is its prediction."""
    decoder = getattr(model, "decoder", None)
    return isinstance(decoder, LSTMDecoder) and decoder.predicts_stepwise and decoder.attention is not None


@contextmanager
def noted(decoder: RecurrentDecoder) -> Iterator[Tuple[List[Tensor], List[Tensor]]]:
    """Collects the states that ask the attention, ``[B, T, Ds]`` in parts, and its weights ``[B, T, N]``."""
    states: List[Tensor] = []
    weights: List[Tensor] = []

    def note(query: Tensor, attended: AttentionOutput) -> AttentionOutput:
        states.append(query)
        weights.append(attended.weights)
        return attended

    decoder.intervention = note
    try:
        yield states, weights
    finally:
        decoder.intervention = None


@torch.no_grad()
def ask(model: Any, sample: Dict[str, Any]) -> Asked:
    """Forces the target of a batch and notes the states from which the attention was asked."""
    net_input, decoder = sample["net_input"], model.decoder
    encoder_out = model.encoder(net_input["src_tokens"], src_lengths=net_input["src_lengths"])
    with noted(decoder) as (states, weights):
        decoder(net_input["prev_output_tokens"], encoder_out=encoder_out)
    real = net_input["src_tokens"].ne(model.encoder.padding_idx).unsqueeze(1)
    asked = Asked(model, sample, encoder_out, torch.cat(states, 1), torch.cat(weights, 1), real, torch.empty(0))
    return asked._replace(probabilities=asked.with_weights(asked.weights))


def uniform(weights: Tensor, real: Tensor) -> Tensor:
    """Equal weights of the same sum, ``[..., N]``; ``real`` is True on words."""
    shares = real.to(weights.dtype)
    return weights.sum(-1, keepdim=True) * shares / shares.sum(-1, keepdim=True)


def permuted(weights: Tensor, real: Tensor, generator: torch.Generator) -> Tensor:
    """The weights ``[..., N]`` in another order of the words, drawn anew for each row; ``real`` is True on words."""
    noise = torch.rand(weights.shape, generator=generator).to(weights.device)
    order = noise.masked_fill(~real, 2.0).argsort(-1)  # padding comes last
    places = (~real).to(torch.uint8).argsort(dim=-1, stable=True).expand_as(order)
    return torch.zeros_like(weights).scatter(-1, places, weights.gather(-1, order))


def variation(p: Tensor, q: Tensor) -> Tensor:
    """Total variation sum_v |p_v - q_v| / 2, ``[..., V]`` to ``[...]``."""
    return (p - q).abs().sum(-1) / 2


def divergence(a: Tensor, b: Tensor) -> Tensor:
    """Jensen-Shannon divergence in nats, ``[..., N]`` to ``[...]``; the rows are divided by their sums."""
    p, q = (x / x.sum(-1, keepdim=True) for x in (a, b))
    m = ((p + q) / 2).clamp(min=torch.finfo(p.dtype).tiny).log()
    return sum((torch.xlogy(x, x) - x * m).sum(-1) for x in (p, q)) / 2  # type: ignore[return-value]


def adversarial(asked: Asked, bound: float, steps: int, start: Tensor) -> Tuple[Tensor, Tensor]:
    """The weights farthest from the model's own, among those tried that leave the prediction as it is.

        max_a JSD(a, own)   subject to   TV(p(y_t; a), p(y_t; own)) <= bound

    (Jain and Wallace 2019, "Attention is not Explanation", section 4.2.2.) Adam climbs from ``start`` with a penalty
    for variation above the bound; the best of the weights within the bound are kept. The maximum may be greater.

    Args:
        asked: of :func:`ask`
        bound: of total variation, above 0
        steps: of Adam
        start: ``[B, T, N]``

    Returns:
        weights ``[B, T, N]``, and their divergence from the model's own ``[B, T]``
    """
    own, mask = asked.weights, ~asked.real
    mass = own.sum(2, keepdim=True)
    # no weight starts at zero, where it would have no gradient
    logits = (0.9 * start + 0.1 * uniform(own, asked.real)).clamp(min=1e-30).log().detach().requires_grad_()
    optimizer = torch.optim.Adam([logits], lr=RATE)
    best, farthest = own.clone(), torch.zeros(own.shape[:2], device=own.device)
    for step in range(steps + 1):
        with torch.enable_grad():
            weights = mass * logits.masked_fill(mask, float("-inf")).softmax(-1)
            changed = variation(asked.with_weights(weights), asked.probabilities)
            far = divergence(weights, own)
            loss = (PENALTY * (changed - bound).clamp(min=0) - far).sum()
        better = (changed <= bound) & (far > farthest)
        farthest = torch.where(better, far.detach(), farthest)
        best = torch.where(better.unsqueeze(2), weights.detach(), best)
        if step < steps:
            (logits.grad,) = torch.autograd.grad(loss, [logits])
            optimizer.step()
    return best, farthest
