#!/usr/bin/env python3
"""The table of a recipe of document classification: accuracy and macro-F1 over folds, and the time of an epoch.

The standard deviation is that of a sample of folds (n - 1). The time is the median of the training epochs' train_wall,
without validation, as the logs have it: other programs on the machine make it longer.
"""

import argparse
import json
import os
import statistics
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from parallel_text import CorpusError, read_text, status_of, write_lines

from fairseq_attn_plugin.analysis.drawing.curves import read_log
from fairseq_attn_plugin.errors import OptionError

SYSTEMS = {
    "han": "`han`: words, sentences, attention",
    "han_flat": "`han_flat`: attention over word embeddings",
    "han_mean": "`han_mean`: `han` with means instead of attention",
    "tfidf": "TF-IDF, logistic regression",
}


def read_json(path: Path) -> Dict[str, Any]:
    try:
        content = json.loads(read_text(path))
        return {name: content[name] for name in ("accuracy", "macro_f1", "documents")}
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError("%s holds no scores (%s): run its stage again" % (path, error)) from None


def run_of(place: Path, split: str) -> Dict[str, Any]:
    """Scores, and of a trained model epochs and the median seconds of one."""
    if place.suffix == ".json":
        return {**read_json(place), "file": str(place)}
    result = {**read_json(place / (split + ".json")), "file": str(place / (split + ".json"))}
    try:
        curves = read_log(place / "train.log")
    except OptionError as error:
        raise CorpusError(str(error)) from None
    walls = list(curves.train.get("train_wall", {}).values())
    result["epochs"] = len(walls)
    result["seconds_per_epoch"] = statistics.median(walls) if walls else None
    accuracies = curves.valid.get("accuracy", {})
    if accuracies:
        result["best_epoch"] = max(sorted(accuracies), key=lambda epoch: accuracies[epoch])
        result["valid_accuracy"] = max(accuracies.values())
    return result


def spread(values: Sequence[float]) -> str:
    mean = "%.2f" % statistics.mean(values)
    return mean + (" ± %.2f" % statistics.stdev(values) if len(values) > 1 else "")


def summary(runs: Sequence[Dict[str, Any]]) -> Dict[str, Any]:
    result: Dict[str, Any] = {"runs": list(runs)}
    for name in ("accuracy", "macro_f1"):
        values = [run[name] for run in runs]
        result[name] = round(statistics.mean(values), 4)
        result[name + "_sd"] = round(statistics.stdev(values), 4) if len(values) > 1 else None
    return result


def median_time(runs: Sequence[Dict[str, Any]]) -> Optional[float]:
    times = [run["seconds_per_epoch"] for run in runs if run.get("seconds_per_epoch") is not None]
    return statistics.median(times) if times else None


def rows_of(systems: Dict[str, List[Dict[str, Any]]]) -> List[str]:
    lines = [
        "| system | accuracy | macro-F1 | of each fold | seconds per epoch |",
        "| --- | ---: | ---: | --- | ---: |",
    ]
    for system, runs in systems.items():
        time = median_time(runs)
        lines.append(
            "| %s | %s | %s | %s | %s |"
            % (
                SYSTEMS.get(system, system),
                spread([run["accuracy"] for run in runs]),
                spread([run["macro_f1"] for run in runs]),
                ", ".join("%.1f" % run["accuracy"] for run in runs),
                "" if time is None else "%.0f" % time,
            )
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", metavar="SYSTEM=PLACE", help="a run's folder, or a JSON of scores")
    parser.add_argument("--split", default="test")
    parser.add_argument("--title", required=True)
    parser.add_argument("--to", required=True, type=Path)
    parser.add_argument("--json", required=True, type=Path)
    args = parser.parse_args()
    systems: Dict[str, List[Dict[str, Any]]] = {}
    for run in args.runs:
        system, _, place = run.partition("=")
        systems.setdefault(system, []).append(run_of(Path(place), args.split))
    folds = max(map(len, systems.values()))
    what = args.split if folds == 1 else "%s, %d folds" % (args.split, folds)
    lines = ["## %s (%s)" % (args.title, what), "", *rows_of(systems)]
    write_lines(args.to, lines)
    partial = args.json.with_name(args.json.name + ".partial")
    content = {"title": args.title, "split": args.split, "systems": {s: summary(runs) for s, runs in systems.items()}}
    partial.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    os.replace(partial, args.json)
    print("\n".join(lines))


if __name__ == "__main__":
    sys.exit(status_of(main))
