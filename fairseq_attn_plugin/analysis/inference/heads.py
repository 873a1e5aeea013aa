"""The weights of one head of a stock fairseq transformer, which itself returns the mean of the heads of a layer."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Optional

from torch import Tensor

from fairseq_attn_plugin.errors import OptionError

__all__ = ["one_head", "transformer_decoder"]


def transformer_decoder(model: Any, option: str, where: str) -> Any:
    """The decoder of a transformer; raises ``OptionError``, which names ``option``, for another model."""
    from fairseq.models.transformer import TransformerDecoderBase

    decoder = getattr(model, "decoder", None)
    if not isinstance(decoder, TransformerDecoderBase):
        raise OptionError(f"{option}: {where}: a {type(model).__name__} is not a transformer; leave it out")
    return decoder


@contextlib.contextmanager
def one_head(model: Any, layer: Optional[int], head: Optional[int], where: str) -> Iterator[Dict[str, Tensor]]:
    """A context for a forward pass, after which the dictionary has the weights ``[B, T, N]`` as ``head``.

    Args:
        model: a transformer
        layer: of the decoder, from 1 (default: the last)
        head: from 1; None leaves the dictionary empty, for any model
        where: start of error messages

    Raises:
        OptionError: the model is no transformer, or has no such head
    """
    found: Dict[str, Tensor] = {}
    if head is None:
        yield found
        return
    option = f"--head {head}"
    layers = transformer_decoder(model, option, where).layers
    attention = layers[-1 if layer is None else min(max(layer, 1), len(layers)) - 1].encoder_attn
    if not 1 <= head <= attention.num_heads:
        raise OptionError(f"{option}: the attention of {where} has heads 1 to {attention.num_heads}")

    def keep(module: Any, args: Any, output: Any) -> None:
        weights = output[1]  # [heads, B, T, N] of the layer whose weights the decoder returns
        if weights is not None and weights.dim() == 4:
            found["head"] = weights[head - 1].float()

    handle = attention.register_forward_hook(keep)
    try:
        yield found
    finally:
        handle.remove()
