"""The table of a recipe of document classification: accuracy and macro-F1 over folds, and the time of an epoch.

The standard deviation is that of a sample of folds (n - 1). The time is the median of the logged ``train_wall`` of the
epochs, without validation. It depends on the load of the machine.
"""

from __future__ import annotations

import os
import statistics
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence, Tuple

from fairseq_attn_plugin.corpora.files import write_lines

from ...analysis.training_logs import read_log
from ..errors import CorpusError
from ..tables import markdown, read_json, write_json

__all__ = ["rows_of", "run_of", "summary", "write_table"]

SYSTEMS = {
    "han": "`han`: words, sentences, attention",
    "han_flat": "`han_flat`: attention over word embeddings",
    "han_mean": "`han_mean`: `han` with means instead of attention",
    "tfidf": "TF-IDF, logistic regression",
}
HEADER = ("system", "accuracy", "macro-F1", "of each fold", "seconds per epoch")


def _scores(path: Path) -> Dict[str, Any]:
    content = read_json(path)
    try:
        return {**{name: content[name] for name in ("accuracy", "macro_f1", "documents")}, "file": str(path)}
    except KeyError as error:
        raise CorpusError(f"{path} holds no scores ({error}): run its stage again") from None


def run_of(place: Path, split: str) -> Dict[str, Any]:
    """Scores of a run; for a trained model also the number of epochs and their median time in seconds.

    Args:
        place: folder of a model, or a JSON of scores
        split: that was scored

    Raises:
        CorpusError: a file is missing or damaged
    """
    if place.suffix == ".json":
        return _scores(place)
    result = _scores(place / f"{split}.json")
    curves = read_log(place / "train.log")
    walls = list(curves.train.get("train_wall", {}).values())
    result["epochs"] = len(walls)
    result["seconds_per_epoch"] = statistics.median(walls) if walls else None
    accuracies = curves.valid.get("accuracy", {})
    if accuracies:
        result["best_epoch"] = max(sorted(accuracies), key=lambda epoch: accuracies[epoch])
        result["valid_accuracy"] = max(accuracies.values())
    return result


def _spread(values: Sequence[float]) -> str:
    deviation = f" ± {statistics.stdev(values):.2f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.2f}{deviation}"


def summary(runs: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    """The runs of a system with mean and standard deviation of their scores."""
    result: Dict[str, Any] = {"runs": list(runs)}
    for name in ("accuracy", "macro_f1"):
        values = [run[name] for run in runs]
        result[name] = round(statistics.mean(values), 4)
        result[name + "_sd"] = round(statistics.stdev(values), 4) if len(values) > 1 else None
    return result


def _median_time(runs: Sequence[Dict[str, Any]]) -> Optional[float]:
    times = [run["seconds_per_epoch"] for run in runs if run.get("seconds_per_epoch") is not None]
    return statistics.median(times) if times else None


def rows_of(systems: Dict[str, List[Dict[str, Any]]]) -> List[List[str]]:
    """Cells of the table, a row per system."""
    rows = []
    for system, runs in systems.items():
        time = _median_time(runs)
        folds = ", ".join(f"{run['accuracy']:.1f}" for run in runs)
        spreads = [_spread([run[name] for run in runs]) for name in ("accuracy", "macro_f1")]
        rows.append([SYSTEMS.get(system, system), *spreads, folds, "" if time is None else f"{time:.0f}"])
    return rows


def write_table(title: str, split: str, runs: Sequence[Tuple[str, Path]], to: Path, json_file: Path) -> None:
    """Writes the table as Markdown and JSON, and prints it.

    Args:
        title: of the table
        split: that was scored
        runs: systems and places, see :func:`run_of`
        to: Markdown file
        json_file: JSON file; the files that it names are relative to its folder

    Raises:
        CorpusError: the scores of a run are missing
    """
    systems: Dict[str, List[Dict[str, Any]]] = {}
    for system, place in runs:
        run = run_of(place, split)
        run["file"] = os.path.relpath(run["file"], json_file.parent)
        systems.setdefault(system, []).append(run)
    folds = max(map(len, systems.values()))
    what = split if folds == 1 else f"{split}, {folds} folds"
    lines = [f"## {title} ({what})", "", *markdown(HEADER, rows_of(systems), left=(0, 3))]
    write_lines(to, lines)
    content = {name: summary(system) for name, system in systems.items()}
    write_json(json_file, {"title": title, "split": split, "systems": content})
    print("\n".join(lines), flush=True)
