"""The systems of a report: the folders of trained models, and the measures of their attention."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import List, NamedTuple, Optional, Sequence

import numpy as np

from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import ModelFolder, open_model_folder

__all__ = ["Measures", "Reported", "System", "find_systems", "measures"]


CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")
LOGS = ("train.log", "log", "log/train")  # the names that the recipes and the demo use


class System(NamedTuple):
    """The files of a training."""

    name: str
    checkpoint: Path
    log: Optional[Path]
    model: Optional[ModelFolder] = None


class Measures(NamedTuple):
    """Measures of a model on forced references."""

    perplexity: float  # per subword of the reference, its end included
    entropy: float  # of the attention, in nats, mean over target subwords
    greatest: float  # weight, mean over target subwords
    end: float  # weight on the end of the source, mean over target subwords


class Reported(NamedTuple):
    """A system with its extracted attention and its measures."""

    system: System
    parameters: int
    forced: Records
    beam: Records
    measured: Measures


def find_systems(folder: Path, names: Optional[Sequence[str]] = None) -> List[System]:
    """The systems of a folder, or itself if it is a model folder, sorted by name, or those of ``names`` in their order.

    Raises ``OptionError`` if there are none, or if one of ``names`` does not exist.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder}: is not a folder")
    found = {}
    children = sorted(folder.iterdir()) if names is None else [folder / name for name in names]
    for child in children if open_model_folder(folder) is None else [Path(os.path.abspath(folder))]:
        model = open_model_folder(child)
        if model is not None:
            log = model.log if model.log.is_file() else None
            found[child.name] = System(child.name, Path(model.checkpoint), log, model)
            continue
        places = [place / name for name in CHECKPOINTS for place in (child, child / "checkpoints")]
        checkpoint = next((path for path in places if path.is_file()), None)
        if checkpoint is not None:
            logs = [path for path in [*(child / name for name in LOGS), *sorted(child.glob("*.log"))] if path.is_file()]
            logs += [path for path in [child / "tensorboard"] if path.is_dir()]
            found[child.name] = System(child.name, checkpoint, logs[0] if logs else None)
        elif names is not None:
            raise OptionError(f"--systems {child.name}: there is no {CHECKPOINTS[0]} in {child}")
    if not found:
        raise OptionError(f"{folder}: none of its folders has a {' or '.join(CHECKPOINTS)}")
    return list(found.values())


def measures(records: Records) -> Measures:
    """The measures of forced references; raises ``OptionError`` without sentences.

    The entropy is H = -sum_j a_tj log a_tj. Weights are divided by their sum, which is not one for some mechanisms.
    """
    log_probability = entropy = greatest = end = 0.0
    subwords = rows = 0
    for record in records:
        log_probability += sum(record.scores)
        subwords += len(record.scores)
        weights = record.attention[:-1].astype(float)
        total = weights.sum(axis=1, keepdims=True)
        weights = (weights / np.where(total > 0, total, 1))[total[:, 0] > 0]
        entropy -= float((weights * np.log(np.where(weights > 0, weights, 1))).sum())
        greatest += float(weights.max(axis=1).sum()) if len(weights) else 0.0
        end += float(weights[:, -1].sum())
        rows += len(weights)
    if not subwords:
        raise OptionError(f"{records.path}: has no sentences")
    rows = max(rows, 1)
    # a word of probability zero makes the perplexity infinite
    mean = -log_probability / subwords
    return Measures(math.exp(mean) if mean < 700 else math.inf, entropy / rows, greatest / rows, end / rows)
