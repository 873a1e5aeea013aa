"""Compares exported graphs, run by onnxruntime, with the model that they were made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, NamedTuple, Tuple

import numpy as np
import torch
from torch import Tensor, nn

from .onnx_files import ENCODER, STEP

__all__ = ["Differences", "Exported", "compare"]

# words less probable than this are not compared by their logarithms: these magnify rounding
LEAST = -15.0
SHAPES = ((1, 1, 3), (3, 2, 5), (2, 4, 1), (1, 2, 0), (4, 3, 9))  # sentences, hypotheses, words of the longest sentence
STEPS = 4


class Differences(NamedTuple):
    """The greatest absolute differences."""

    log_probs: float  # of words with log p > LEAST
    probabilities: float
    weights: float


class Exported:
    """The graphs of a folder and the state of a search with them.

    Args:
        folder: that has both files
    """

    def __init__(self, folder: Path):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = 1, 3
        self._sessions = [
            onnxruntime.InferenceSession(str(folder / name), options, providers=["CPUExecutionProvider"])
            for name in (ENCODER, STEP)
        ]
        self._tensors: Dict[str, Any] = {}
        self._step = 0

    def begin(self, source: Tensor) -> None:
        """Encodes ``source`` ``[B, N]``; every sentence has one hypothesis then."""
        names = [output.name for output in self._sessions[0].get_outputs()]
        self._tensors = dict(zip(names, self._sessions[0].run(None, {"source": source.numpy()})))
        self._step = 0

    def step(self, words: Tensor, candidates: int = 1) -> Dict[str, Any]:
        """The outputs for ``words`` ``[B, K]``; the new state is kept."""
        given = {
            **self._tensors,
            "words": words.numpy(),
            "position": np.array([self._step]),
            "candidates": np.array([candidates]),
        }
        session = self._sessions[1]
        wanted = [one.name for one in session.get_inputs()]
        values = session.run(None, {name: given[name] for name in wanted})
        out = dict(zip((output.name for output in session.get_outputs()), values))
        self._step += 1
        for name in list(out):
            if name.startswith("next"):
                self._tensors["state" + name[len("next") :]] = out.pop(name)
        return out

    def select(self, rows: Tensor) -> None:
        """Continues with the hypotheses ``rows`` ``[B, K']``, numbered through all sentences."""
        for name, x in self._tensors.items():
            if name.startswith("state"):
                self._tensors[name] = x.reshape(-1, *x.shape[2:])[rows.flatten().numpy()].reshape(
                    *rows.shape, *x.shape[2:]
                )


@torch.no_grad()
def compare(model: nn.Module, folder: Path) -> Differences:
    """The differences over several steps of searches with different numbers of sentences, hypotheses and words.

    Args:
        model: as it translates, not in the form in which it was exported
        folder: with both graphs
    """
    generator = torch.Generator().manual_seed(1)
    exported, worst = Exported(folder), Differences(0.0, 0.0, 0.0)
    for sentences, hypotheses, longest in SHAPES:
        source = _random_sources(model, sentences, longest, generator)
        exported.begin(source)
        encoder_out, incremental = model.encoder(source), {}  # type: ignore[var-annotated]
        words = torch.full((sentences, 1), model.decoder.dictionary.eos())
        history = words
        for _ in range(STEPS):
            out = exported.step(words)
            net_output = model.decoder(history, encoder_out=encoder_out, incremental_state=incremental)
            found = _differences(model, net_output, out)
            worst = Differences(*(float(np.maximum(*both)) for both in zip(worst, found)))  # unlike max it keeps NaN
            width = words.size(1)
            choice = torch.randint(width, (sentences, hypotheses), generator=generator)
            rows = choice + torch.arange(sentences).unsqueeze(1) * width
            exported.select(rows)
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
