"""The contract of encoders (:mod:`fairseq_attn_plugin.modules.encoders.source_encoder`) as one function."""

from __future__ import annotations

from typing import Any, List

import torch
from fairseq.data.data_utils import collate_tokens
from torch import Tensor, nn

from ..modules.encoders.source_encoder import EncoderOut, SourceEncoder
from ..modules.encoders.stock_encoder import StockEncoder
from .mechanisms import equal, require
from .subject import LENGTHS

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
    words: Any = encoder.dictionary
    ours = encoder if isinstance(encoder, SourceEncoder) else StockEncoder(words, encoder)
    training = ours.training
    numbers = torch.arange(max(LENGTHS)) % max(len(words) - words.nspecial, 1) + words.nspecial
    sentences = [torch.tensor([*numbers[:size].tolist(), words.eos()]) for size in LENGTHS]
    try:
        ours.eval()
        for left in (True, False):
            _check_batch(ours, sentences, collate_tokens(sentences, words.pad(), left_pad=left))
        _check_gradients(ours, sentences[0])
    finally:
        ours.train(training)


@torch.no_grad()
def _check_batch(encoder: SourceEncoder, sentences: List[Tensor], tokens: Tensor) -> None:
    out, words = _encode(encoder, tokens), tokens.ne(encoder.padding_idx)
    require(out["pad_mask"] is not None and out["pad_mask"].equal(~words), "pad_mask must be True on padding")
    require(not out["encodings"][~words].any(), "encodings must be exactly zero on padding")
    for row, sentence in enumerate(sentences):
        alone = _encode(encoder, sentence.unsqueeze(0))
        require(alone["pad_mask"] is None, "pad_mask must be None without padding")
        for name, found in (("encodings", out["encodings"][row][words[row]]), ("hidden", out["hidden"][row])):
            rule = f"{name} must not depend on padding and on other sentences"
            equal(found, alone[name][0], rule, rtol=1e-4, atol=1e-5)
    # two hypotheses for each sentence; then those of the last sentences alone
    wide = encoder.reorder_encoder_out(out, torch.arange(len(tokens)).repeat_interleave(2))
    few = encoder.reorder_encoder_out(wide, torch.arange(2, 2 * len(tokens)))
    rule = "reorder_encoder_out must keep one entry per sentence, and rows must name the sentence of each row"
    for reordered, first in ((wide, 0), (few, 1)):
        equal(reordered["rows"], torch.arange(len(tokens) - first).repeat_interleave(2), rule)
        equal(reordered["encodings"], out["encodings"][first:], rule)


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


def _check_gradients(encoder: SourceEncoder, sentence: Tensor) -> None:
    encodings = encoder(sentence.unsqueeze(0))["encodings"]
    (gradient,) = torch.autograd.grad(encodings.pow(2).sum(), encoder.embed_tokens.weight, allow_unused=True)
    reached = gradient is not None and bool(gradient[sentence].abs().sum(1).gt(0).all())
    require(reached, "gradients must reach the embeddings of all words")
    require(gradient.isfinite().all(), "gradients must be finite")
