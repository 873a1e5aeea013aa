"""Compares exported graphs, run by onnxruntime, with the model that they were made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, NamedTuple, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from .exported_folder import follow, run, session
from .onnx_files import ENCODER, STEP

__all__ = ["Differences", "compare"]

# words less probable than this are not compared by their logarithms: these magnify rounding
LEAST = -15.0
SHAPES = ((1, 1, 3), (3, 2, 5), (2, 4, 1), (1, 2, 0), (4, 3, 9))  # sentences, hypotheses, words of the longest sentence
STEPS = 4


class Differences(NamedTuple):
    """The greatest absolute differences."""

    log_probs: float  # of words with log p > LEAST
    probabilities: float
    weights: float


@torch.no_grad()
def compare(model: nn.Module, folder: Path) -> Differences:
    """The differences over several steps of searches with different numbers of sentences, hypotheses and words.

    Args:
        model: as it translates, not in the form in which it was exported
        folder: with both graphs
    """
    generator, worst = torch.Generator().manual_seed(1), Differences(0.0, 0.0, 0.0)
    encoder, step = (session((folder / name).read_bytes()) for name in (ENCODER, STEP))
    for sentences, hypotheses, longest in SHAPES:
        source = _random_sources(model, sentences, longest, generator)
        tensors = run(encoder, {"source": source.numpy()})
        encoder_out, incremental = model.encoder(source), {}  # type: ignore[var-annotated]
        history = words = torch.full((sentences, 1), model.decoder.dictionary.eos())
        for position in range(STEPS):
            tensors.update(words=words.numpy(), position=np.array([position]), candidates=np.array([1]))
            out = run(step, tensors)
            net_output = model.decoder(history, encoder_out=encoder_out, incremental_state=incremental)
            found = _differences(model, net_output, out)
            worst = Differences(*(float(np.maximum(*both)) for both in zip(worst, found)))  # unlike max it keeps NaN
            width = words.size(1)
            choice = torch.randint(width, (sentences, hypotheses), generator=generator)
            rows = choice + torch.arange(sentences).unsqueeze(1) * width
            follow(tensors, out, rows.numpy())
            model.decoder.reorder_incremental_state(incremental, rows.flatten())
            encoder_out = model.encoder.reorder_encoder_out(encoder_out, rows.flatten())
            words = torch.randint(len(model.decoder.dictionary), (sentences, hypotheses), generator=generator)
            history = torch.cat([history[rows.flatten()], words.view(-1, 1)], dim=1)
    return worst


def _random_sources(model: nn.Module, sentences: int, longest: int, generator: torch.Generator) -> Tensor:
    dictionary = model.encoder.dictionary
    source = torch.randint(dictionary.nspecial, len(dictionary), (sentences, longest + 1), generator=generator)
    for row in range(sentences):
        length = max(longest - row, 0)  # the last of many sentences may have the end alone
        source[row, length], source[row, length + 1 :] = dictionary.eos(), dictionary.pad()
    return source[torch.randperm(sentences, generator=generator)]


def _differences(model: nn.Module, net_output: Any, out: Dict[str, Any]) -> Tuple[float, float, float]:
    expected = model.get_normalized_probs(net_output, log_probs=True)[:, -1]
    found = torch.from_numpy(out["log_probs"]).flatten(0, 1)
    counted = torch.where(expected > LEAST, (found - expected).abs(), torch.zeros(()))
    weights = 0.0
    if "weights" in out:
        mine = torch.from_numpy(out["weights"]).flatten(0, 1)
        weights = float((net_output[1]["attn"][0][:, -1] - mine).abs().max())
    return float(counted.max()), float((found.exp() - expected.exp()).abs().max()), weights
