"""The trainings of a report: their folders, the measures of their attention, and which of them are one system.

Trainings whose names differ in the seed only are one system, which is shown by means and standard deviations."""

import math
import os
import re
import statistics
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence

import numpy as np
import torch

from fairseq_attn_plugin.analysis.records.files import Records
from fairseq_attn_plugin.attention import attention_statistics
from fairseq_attn_plugin.errors import OptionError
from fairseq_attn_plugin.model_folder import MODEL, ModelFolder, open_model_folder

CHECKPOINTS = ("checkpoint_best.pt", "checkpoint_last.pt")


class System(NamedTuple):
    """The files of a training."""

    name: str
    checkpoint: Path
    model: Optional[ModelFolder] = None
    fault: str = ""  # of a model folder that cannot be opened


class Measures(NamedTuple):
    """Measures of a model on forced references."""

    perplexity: float  # per subword of the reference, its end included
    entropy: float  # of the attention, in nats, mean over target subwords
    greatest: float  # weight, mean over target subwords
    end: float  # weight on the end of the source, mean over target subwords
    information: float  # of a step and the position that it attends to, divided by log n, mean over target subwords


class Reported(NamedTuple):
    """A system with its extracted attention and its measures."""

    system: System
    parameters: int
    forced: Records
    beam: Records
    measured: Measures
    seed: int


def find_systems(folder: Path, names: Optional[Sequence[str]] = None) -> List[System]:
    """The trainings in a folder and in the folders below it, sorted by name, or those of ``names`` in their order.

    A name is the path below the folder. One of ``names`` may leave out the seed (:func:`without_seed`) and then stands
    for all seeds. Model folders are trainings, too.

    Raises ``OptionError`` if there are none, or if one of ``names`` does not exist.
    """
    if not folder.is_dir():
        raise OptionError(f"{folder}: is not a folder")
    found = _search(folder)
    if not found:
        raise OptionError(f"{folder}: none of its folders has a {' or '.join(CHECKPOINTS)}")
    if names is None:
        return list(found.values())
    chosen: Dict[str, System] = {}
    for given in names:
        name = given.rstrip("/")
        same = [found[name]] if name in found else [one for one in found.values() if without_seed(one.name) == name]
        if not same:
            known = ", ".join(list(found)[:10]) + (", ..." if len(found) > 10 else "")
            raise OptionError(f"--systems {given}: there is no {CHECKPOINTS[0]} in {folder / given}; found: {known}")
        chosen.update({one.name: one for one in same})
    return list(chosen.values())


def _search(folder: Path) -> Dict[str, System]:
    found, seen = {}, set()
    for place, below, _ in os.walk(folder, followlinks=True):
        real = os.path.realpath(place)
        below[:] = sorted(name for name in below if not name.startswith(".")) if real not in seen else []
        seen.add(real)
        child = Path(place)
        if child.name == "checkpoints" and child != folder:
            continue  # of the folder above
        name = child.relative_to(folder).as_posix() if child != folder else folder.resolve().name
        model, fault = None, ""
        try:
            model = open_model_folder(child)
        except OptionError as error:
            fault = str(error)
        if model is not None or fault:
            below.clear()
            found[name] = System(name, child / MODEL, model, fault)
            continue
        places = [where / name for name in CHECKPOINTS for where in (child, child / "checkpoints")]
        checkpoint = next((path for path in places if path.is_file()), None)
        if checkpoint is not None:
            found[name] = System(name, checkpoint)
    return dict(sorted(found.items()))


_SEED = re.compile(r"[._-]?(common\.)?seed[=._-]?\d+,?")


def without_seed(name: str) -> str:
    """The name of a training without its seed: ``lstm_soft`` of ``lstm_soft.seed1``."""
    return _SEED.sub("", name).strip("/,.") or name


def measures(records: Records) -> Measures:
    """The measures of forced references; raises ``OptionError`` without sentences.

    The entropy is H = -sum_j a_tj log a_tj. Weights are divided by their sum, which is not one for some mechanisms. The
    information is that of validation (:mod:`fairseq_attn_plugin.attention.statistics`), but without the step that
    predicts the end.
    """
    scores: List[float] = []
    rows = 0
    sums = np.zeros(4)  # of entropy, greatest, end, information
    for record in records:
        scores += record.scores
        weights = record.attention[:-1].astype(float)
        weights = weights[weights.sum(axis=1) > 0]
        weights /= weights.sum(axis=1, keepdims=True)
        rows += len(weights)
        entropies = -(weights * np.log(np.where(weights > 0, weights, 1))).sum()
        information = attention_statistics(torch.from_numpy(weights)[None])["attention_information_statistic"].value
        sums += [entropies, weights.max(axis=1, initial=0).sum(), weights[:, -1].sum(), float(information)]
    if not scores:
        raise OptionError(f"{records.path}: has no sentences")
    # a word of probability zero makes the perplexity infinite
    mean = -sum(scores) / len(scores)
    perplexity = math.exp(mean) if mean < 700 else math.inf
    return Measures(perplexity, *(sums / max(rows, 1)).tolist())


class Group(NamedTuple):
    """A system: trainings that differ in the seed only, in the order of their seeds."""

    name: str
    runs: List[Reported]

    @property
    def seeds(self) -> List[int]:
        return [run.seed for run in self.runs]


def groups_of(reported: Sequence[Reported]) -> List[Group]:
    """The systems, in the order of their first trainings.

    Trainings are one system if their names are the same without the seed (:func:`without_seed`), and their seeds
    differ. A system of several trainings is named as they are, without the seed.
    """
    alike: Dict[str, List[Reported]] = {}
    for one in reported:
        alike.setdefault(without_seed(one.system.name), []).append(one)
    groups = []
    for name, runs in alike.items():
        if len(runs) > 1 and len({run.seed for run in runs}) == len(runs):
            groups.append(Group(name, sorted(runs, key=lambda run: run.seed)))
        else:
            groups += [Group(run.system.name, [run]) for run in runs]
    return groups


def spread(values: Iterable[Optional[float]], digits: int) -> Optional[str]:
    """Mean, and in brackets the standard deviation of several values that differ; None without values."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    mean = f"{statistics.mean(known):,.{digits}f}"
    deviation = statistics.stdev(known) if len(known) > 1 and all(map(math.isfinite, known)) else 0.0
    return f"{mean} ({deviation:,.{digits}f})" if deviation else mean
