"""The contract of encoders (:mod:`fairseq_attn_plugin.modules.encoders.source_encoder`) as one function."""

from __future__ import annotations

from typing import Any, List

import torch
from torch import Tensor, nn

from ..modules.encoders.source_encoder import EncoderOut, SourceEncoder
from ..modules.encoders.stock_encoder import StockEncoder
from .mechanisms import equal, require
from .subject import LENGTHS

__all__ = ["check_encoder"]

KEYS = {"encodings", "hidden", "cell", "tokens", "pad_mask", "rows"}


def check_encoder(encoder: nn.Module) -> None:
    """Checks that an encoder keeps the contract, in evaluation, on a small batch.

    The checks are: names and shapes of the result; encodings of zero on padding; no influence of padding, on either
    side, or of other sentences; one entry per sentence after a reordering; gradients that are finite and reach the
    embeddings.

    Args:
        encoder: a ``SourceEncoder``, or an encoder of fairseq or of another plugin, as ``--encoder-arch`` takes it

    Raises:
        AssertionError: the encoder breaks a rule
        ValueError: an encoder of fairseq does not return a vector for every source position
    """
    dictionary: Any = encoder.dictionary
    ours = encoder if isinstance(encoder, SourceEncoder) else StockEncoder(dictionary, encoder)
    training = ours.training
    try:
        _check(ours.eval(), _sentences(dictionary))
    finally:
        ours.train(training)


def _sentences(dictionary: Any) -> List[Tensor]:
    """Sentences of ``LENGTHS`` words and an end."""
    words = range(dictionary.nspecial, len(dictionary)) or [dictionary.unk()]
    return [torch.tensor([*(words[n % len(words)] for n in range(size)), dictionary.eos()]) for size in LENGTHS]


def _batch(sentences: List[Tensor], pad: int, left: bool) -> Tensor:
    width = max(map(len, sentences))
    rows = [[row.new_full((width - len(row),), pad), row] for row in sentences]
    return torch.stack([torch.cat(row if left else row[::-1]) for row in rows])


def _check(encoder: SourceEncoder, sentences: List[Tensor]) -> None:
    alone = [_encode(encoder, sentence.unsqueeze(0)) for sentence in sentences]
    require(all(one["pad_mask"] is None for one in alone), "pad_mask must be None without padding")
    for left in (True, False):
        tokens = _batch(sentences, encoder.padding_idx, left)
        out = _encode(encoder, tokens)
        words = tokens.ne(encoder.padding_idx)
        require(out["pad_mask"] is not None and out["pad_mask"].equal(~words), "pad_mask must be True on padding")
        require(not out["encodings"][~words].any(), "encodings must be exactly zero on padding")
        for row, one in enumerate(alone):
            for name, found in (("encodings", out["encodings"][row][words[row]]), ("hidden", out["hidden"][row])):
                rule = f"{name} must not depend on padding and on other sentences"
                equal(found, one[name][0], rule, rtol=1e-4, atol=1e-5)
        _check_order(encoder, out)
    table = encoder.embed_tokens.weight
    encodings = encoder(tokens)["encodings"]
    (gradient,) = torch.autograd.grad(encodings.pow(2).sum(), table, allow_unused=True)
    reached = gradient is not None and bool(gradient[sentences[0]].abs().sum(1).gt(0).all())
    require(reached, "gradients must reach the embeddings of all words")
    require(gradient.isfinite().all(), "gradients must be finite")


@torch.no_grad()
def _encode(encoder: SourceEncoder, tokens: Tensor) -> EncoderOut:
    out: EncoderOut = encoder(tokens)
    require(set(out) == KEYS, f"the result must have {', '.join(sorted(KEYS))}; has {', '.join(sorted(out))}")
    batch, units = len(tokens), encoder.output_units
    sizes = {"encodings": (*tokens.shape, units), "hidden": (batch, encoder.num_layers, units)}
    if "cell" in encoder.states or out["cell"] is not None:
        sizes["cell"] = sizes["hidden"]
    for name, size in sizes.items():
        found = tuple(getattr(out[name], "shape", ()))
        require(found == size, f"{name} must be of shape {size}, is of {found}")
    require(out["tokens"].equal(tokens), "tokens must be the words that were given")
    require(out["rows"].equal(torch.arange(batch)), "rows must be 0, 1, ...: one for each sentence")
    return out


def _check_order(encoder: SourceEncoder, out: EncoderOut) -> None:
    """Two hypotheses for each sentence; then those of the last sentences alone."""
    wide = encoder.reorder_encoder_out(out, torch.arange(len(LENGTHS)).repeat_interleave(2))
    few = encoder.reorder_encoder_out(wide, torch.arange(2, 2 * len(LENGTHS)))
    rule = "reorder_encoder_out must keep one entry per sentence, and rows must name the sentence of each row"
    for found, first in ((wide, 0), (few, 1)):
        equal(found["rows"], torch.arange(len(LENGTHS) - first).repeat_interleave(2), rule)
        equal(found["encodings"], out["encodings"][first:], rule)
