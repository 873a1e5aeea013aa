"""Writes a trained model as a folder that translates without torch and fairseq.

The folder has the graphs (:mod:`.onnx_files`), ``source.txt`` and ``target.txt`` (a symbol per line), the subword
model, ``settings.json``, ``README.md``, ``translate.py`` (a copy of :mod:`.runtime`) and ``exported_folder.py``.
"""

from __future__ import annotations

import hashlib
import platform
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict

import torch
from torch import nn

from ...errors import OptionError
from ...model_folder import SETTINGS, Text
from ...models.attn_lstm import AttnLSTMModel
from ...writing import write_json
from . import exported_folder, runtime
from .onnx_check import Differences, compare
from .onnx_files import quantize, write_graphs

__all__ = ["PRECISIONS", "check_exportable", "export_folder"]

PRECISIONS = ("float32", "int8")
TOLERANCE = 1e-3  # of log p in float32; the rounding of long sums differs between libraries

README = """# A translation model, {source} to {target}

Written by `fairseq-attn export` ({precision}). It needs neither torch nor fairseq, but

    pip install {packages}
    python translate.py < input > output
    python translate.py --help
"""


def check_exportable(model: nn.Module, name: str) -> None:
    """Raises ``OptionError`` for a model that has no exported form.

    Args:
        model: any model
        name: its checkpoint, for the message
    """
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
        unfinished = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    except OSError as error:
        raise OptionError(f"--to {folder}: cannot be written: {error.strerror or error}") from None
    try:
        write_graphs(model, unfinished)
        if precision == "int8":
            quantize(unfinished)
        differences = compare(model, unfinished)
        if precision == "float32" and not differences.log_probs <= TOLERANCE:
            raise OptionError(
                f"--to {folder}: the graphs differ from the model by {differences.log_probs:.2g} in log p; this model "
                "cannot be exported (does its attention decide by sizes or values in Python? see for_export)"
            )
        versions = {"torch": torch.__version__, "onnx": onnx.__version__, "onnxruntime": onnxruntime.__version__}
        _write_rest(model, unfinished, text, {**settings, "precision": precision, "versions": versions})
        unfinished.chmod(0o755)
        unfinished.replace(folder)
    except OSError as error:
        raise OptionError(f"--to {folder}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
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
