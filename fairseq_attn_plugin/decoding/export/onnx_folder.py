"""Writes a trained model as a folder that translates without torch and fairseq.

The folder has the graphs (:mod:`.onnx_graphs`), ``source.txt`` and ``target.txt`` (a symbol per line), the subword
model, ``settings.json``, ``README.md``, ``translate.py`` (a copy of :mod:`.runtime`) and ``exported_folder.py``. The
graphs, run by onnxruntime, are compared with the model that they were made of (:func:`compare`).
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, NamedTuple, Tuple

import numpy as np
import torch
from torch import nn

from ...errors import OptionError
from ...model_folder import SETTINGS, Text
from ...models.attn_lstm import AttnLSTMModel
from ...writing import write_json
from . import exported_folder, runtime
from .exported_folder import follow, run, session
from .onnx_graphs import ENCODER, STEP, quantize, random_sources, write_graphs

PRECISIONS = ("float32", "int8")
TOLERANCE = 1e-3  # of log p and of weights in float32; the rounding of long sums differs between libraries
# words less probable than this are not compared by their logarithms: these magnify rounding
LEAST = -15.0
SHAPES = ((1, 1, 3), (3, 2, 5), (2, 4, 1), (1, 2, 0), (4, 3, 9))  # sentences, hypotheses, words of the longest sentence
STEPS = 4

README = """# A translation model, {source} to {target}

Written by `fairseq-attn export` ({precision}). It needs neither torch nor fairseq, but

    pip install {packages}
    python translate.py < input > output
    python translate.py --help
"""


def check_exportable(model: nn.Module, name: str) -> None:
    """Raises ``OptionError`` for a model, of the checkpoint ``name``, that has no exported form."""
    if not isinstance(model, AttnLSTMModel):
        raise OptionError(
            f"{name}: a {type(model).__name__} cannot be exported; must be a translation model of this package, such "
            "as lstm_soft"
        )
    for wrong, what, other in (
        (model.decoder.revises, "feeds the posterior of its alignments (--arch lstm_posterior)", "an lstm_latent"),
        (model.decoder.adaptive_softmax is not None, "has an adaptive softmax (--adaptive-softmax-cutoff)", "another"),
        (getattr(model, "first_order", False), "has first-order alignments", "an lstm_latent"),
    ):
        if wrong:
            raise OptionError(f"{name}: the model {what}, which cannot be exported; take {other}")


def export_folder(
    model: nn.Module, folder: Path, text: Text, settings: Dict[str, Any], precision: str = "float32"
) -> Differences:
    """Writes the folder, complete or not at all.

    Args:
        model: in evaluation mode, on the CPU; see :func:`check_exportable`
        folder: does not exist, or is empty
        text: how lines become tokens
        settings: further ones for ``settings.json``: languages, beam, lenpen
        precision: one of ``PRECISIONS``: of the matrix products with weights

    Returns:
        the differences between the graphs and the model

    Raises:
        OptionError: the folder exists or cannot be written, onnx or onnxruntime is missing, or the graphs differ from
            the model
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OptionError(f"--to {folder}: exists; name another folder, or remove it first")
    try:
        import onnx
        import onnxruntime
    except ImportError:
        raise OptionError(
            "fairseq-attn export needs onnx and onnxruntime: pip install 'fairseq_attn_plugin[export]'"
        ) from None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f"{folder.name}.", dir=folder.parent) as place:
            unfinished = Path(place) / folder.name
            unfinished.mkdir()
            write_graphs(model, unfinished)
            if precision == "int8":
                quantize(unfinished)
            why = (
                "this model cannot be exported (does its attention decide by sizes or values in Python? see for_export)"
            )
            try:
                differences = compare(model, unfinished)
            except Exception as problem:  # the classes of onnxruntime have no other in common
                said = " ".join(str(problem).split())[:200]
                raise OptionError(f"--to {folder}: the graphs fail where sizes are others: {said}; {why}") from problem
            exact = differences.log_probs <= TOLERANCE and differences.weights <= TOLERANCE
            if precision == "float32" and not exact:
                raise OptionError(
                    f"--to {folder}: the graphs differ from the model by {differences.log_probs:.2g} in log p and by "
                    f"{differences.weights:.2g} in weights; {why}"
                )
            versions = {"torch": torch.__version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
            _write_rest(model, unfinished, text, {**settings, "precision": precision, "versions": versions})
            unfinished.replace(folder)
    except OSError as error:
        raise OptionError(f"--to {folder}: cannot be written: {error.strerror or error}") from None
    return differences


def _write_rest(model: nn.Module, folder: Path, text: Text, settings: Dict[str, Any]) -> None:
    """Vocabularies, subword model, translator, README and settings."""
    sides = {"source.txt": model.encoder.dictionary, "target.txt": model.decoder.dictionary}
    for name, dictionary in sides.items():
        symbols = "".join(symbol + "\n" for symbol in dictionary.symbols)
        (folder / name).write_bytes(symbols.encode("utf-8", "surrogateescape"))
    about_text = text.save(folder)
    packages = about_text["bpe"] and about_text["bpe"].replace("_", "-")
    for module, name in ((runtime, "translate.py"), (exported_folder, "exported_folder.py")):
        shutil.copyfile(str(module.__file__), folder / name)
    needed = ["numpy", "onnxruntime", packages, "sacremoses" if text.tokenizer or text.normalizer == "moses" else None]
    source, target = settings["languages"]
    described = {"source": source, "target": target, "packages": " ".join(filter(None, needed))}
    (folder / "README.md").write_text(README.format(precision=settings["precision"], **described), encoding="utf-8")
    attention = model.decoder.attention
    content = {
        "format": exported_folder.FORMAT,
        **settings,
        "attention": None if attention is None else attention.name,
        "max_len_a": 0,
        "max_len_b": 200,
        "max_len": int(min(model.decoder.max_positions(), 10**6)) - 1,
        "min_len": 1,
        "max_source_positions": int(min(model.encoder.max_positions(), 10**6)),
        **about_text,
        "versions": {"python": platform.python_version(), **settings["versions"]},
        "files": {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())},
    }
    write_json("--to", folder / SETTINGS, content)


class Differences(NamedTuple):
    """The greatest absolute differences."""

    log_probs: float  # of words with log p > LEAST
    probabilities: float
    weights: float


@torch.no_grad()
def compare(model: nn.Module, folder: Path) -> Differences:
    """The differences over several steps of searches with different numbers of sentences, hypotheses and words, between
    the graphs in the folder and the model as it translates, not in the form in which it was exported."""
    generator, worst = torch.Generator().manual_seed(1), Differences(0.0, 0.0, 0.0)
    encoder, step = (session((folder / name).read_bytes()) for name in (ENCODER, STEP))
    for sentences, hypotheses, longest in SHAPES:
        source = random_sources(model, sentences, longest, generator)
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


def _differences(model: nn.Module, net_output: Any, out: Dict[str, Any]) -> Tuple[float, float, float]:
    expected = model.get_normalized_probs(net_output, log_probs=True)[:, -1]
    found = torch.from_numpy(out["log_probs"]).flatten(0, 1)
    counted = torch.where(expected > LEAST, (found - expected).abs(), torch.zeros(()))
    weights = 0.0
    if "weights" in out:
        mine = torch.from_numpy(out["weights"]).flatten(0, 1)
        weights = float((net_output[1]["attn"][0][:, -1] - mine).abs().max())
    return float(counted.max()), float((found.exp() - expected.exp()).abs().max()), weights
