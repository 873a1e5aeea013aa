"""Runs of a leaderboard: a JSON file or a line for each, in groups that one table shows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from fairseq_attn_plugin.errors import OptionError

__all__ = ["Run", "Table", "read_tables"]

# a table compares with the first of these that it has, or with its first system
BASELINES = ("lstm_soft", "small-soft")
NUMBERS = ("parameters", "best_updates", "valid_perplexity", "entropy")


class Run(NamedTuple):
    """One training."""

    path: Path
    system: str
    seed: int
    content: Dict[str, Any]
    statistics: List[List[int]]  # for each sentence: words of translation and reference, and four matches

    def number(self, *keys: str) -> Optional[float]:
        """The number at ``content[key][key]...``, or None."""
        value: Any = self.content
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return float(value) if isinstance(value, (int, float)) else None


class Table(NamedTuple):
    """The runs of one folder or file: the same corpus, direction and subwords."""

    name: str
    systems: Dict[str, List[Run]]
    baseline: str


def read_tables(folder: Path, names: Optional[Sequence[str]] = None, baseline: Optional[str] = None) -> List[Table]:
    """All runs below a folder, a table for each folder with runs, or the runs of one file.

    Args:
        folder: of the results, a JSON file for each run; or a file ``.jsonl``, a line for each run
        names: of the systems to show (default: all); a table without any of them is left out
        baseline: system that the others are compared with, in all tables that have it

    Raises:
        OptionError: there are no runs, a file is damaged, the runs of a folder are not of the same test set, or no
            table has the baseline
    """
    found: Dict[str, List[Run]] = {}
    for path, content in _contents(folder):
        run = _run(path, content)
        if run is not None and (names is None or run.system in names):
            found.setdefault(path.relative_to(folder).parent.as_posix(), []).append(run)
    if not found:
        raise OptionError(f"{folder}: has no results of a leaderboard; for trained models, give --data")
    if baseline is not None and not any(run.system == baseline for runs in found.values() for run in runs):
        known = sorted({run.system for runs in found.values() for run in runs})
        raise OptionError(f"--baseline {baseline}: must be one of {', '.join(known)}")
    return [_table(name, runs, names, baseline) for name, runs in found.items()]


def _table(name: str, runs: List[Run], names: Optional[Sequence[str]], baseline: Optional[str]) -> Table:
    first = runs[0]
    for run in runs:
        if len(run.statistics) != len(first.statistics) or run.content["split"] != first.content["split"]:
            raise OptionError(f"{run.path}: is not of the same sentences as {first.path}; keep them in two folders")
    systems: Dict[str, List[Run]] = {}
    for run in sorted(runs, key=lambda run: run.seed):
        systems.setdefault(run.system, []).append(run)
    chosen = [one for one in (baseline, *BASELINES) if one in systems]
    base = chosen[0] if chosen else next(iter(systems))
    order = list(names) if names is not None else [base, *sorted(set(systems) - {base})]
    title = "" if name == "." else name
    return Table(
        title or f"{first.content['dataset']} {first.content['pair']}",
        {n: systems[n] for n in order if n in systems},
        base,
    )


def _contents(folder: Path) -> Iterator[Tuple[Path, Any]]:
    """The JSON files of a folder, or the lines of a file."""
    in_lines = folder.suffix == ".jsonl" and folder.is_file()
    if not in_lines and not folder.is_dir():
        raise OptionError(f"{folder}: is not a folder, nor a file .jsonl")
    for path in [folder] if in_lines else sorted(folder.rglob("*.json")):
        try:
            text = path.read_text(encoding="utf-8")
            contents = [json.loads(one) for one in (text.splitlines() if in_lines else [text])]
        except (OSError, ValueError) as error:
            raise OptionError(f"{path}: cannot be read: {error}") from None
        yield from ((path / str(number) if in_lines else path, one) for number, one in enumerate(contents, 1))


def _run(path: Path, content: Any) -> Optional[Run]:
    """The run of a file or a line; None for a JSON of another kind."""
    if not isinstance(content, dict) or not {"system", "seed", "statistics"} <= set(content):
        return None
    try:
        lines = [[int(count) for count in line.split()] for line in content["statistics"]["sentences"]]
        run = Run(path, str(content["system"]), int(content["seed"]), content, lines)
        complete = all(run.number(key) is not None for key in NUMBERS) and all(len(line) == 6 for line in lines)
        complete = complete and bool(lines) and run.number("bleu", "tokenized", "score") is not None
        complete = complete and {"split", "dataset", "pair", "command"} <= set(content)
    except (TypeError, ValueError, KeyError, AttributeError):
        complete = False
    if not complete:
        raise OptionError(f"{path}: is not complete; remove it")
    return run
