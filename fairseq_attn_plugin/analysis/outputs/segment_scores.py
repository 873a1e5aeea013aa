"""Scores of sentences that another program computed, such as COMET's, as a column beside BLEU.

Two forms are read:

- JSON of ``comet-score --to_json FILE``: ``{"soft.txt": [{"mt": ..., "COMET": 0.81}, ...], ...}``; numbers in place of
  the objects are taken as well;
- a table with tabs: a header with the names of the systems, then a line of numbers for each sentence.

A system is found by its label or by the name of its file.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Optional

from fairseq_attn_plugin.errors import OptionError


class SegmentScores(NamedTuple):
    """Scores by one metric; the score of a system is their mean."""

    metric: str
    path: str
    systems: Dict[str, List[float]]  # {name in the file: a score for each sentence}


def read_segment_scores(text: str) -> SegmentScores:
    """The scores of ``METRIC=FILE``.

    Raises:
        OptionError: the text has another form, or the file cannot be read or has another form
    """
    metric, equals, path = text.partition("=")
    if not metric or not equals or not path:
        raise OptionError(f"--scores {text}: must be METRIC=FILE, as in COMET=comet.json")
    if metric.lower() in ("bleu", "chrf", "chrf2", "ter"):
        raise OptionError(f"--scores {text}: {metric} is computed from the translations; give the metric another name")
    try:
        content = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"--scores {text}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    systems = _from_json(content, metric) if content.lstrip().startswith(("{", "[")) else _from_lines(content)
    if not systems or not all(systems.values()):
        raise OptionError(
            f"--scores {text}: has no scores of {metric}; must be the JSON of comet-score --to_json, or a table with "
            "tabs and the names of the systems in its first line"
        )
    return SegmentScores(metric, path, systems)


def _from_json(content: str, metric: str) -> Dict[str, List[float]]:
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(given, dict):
        return {}
    systems = {}
    for name, entries in given.items():
        values = [_value(entry, metric) for entry in entries] if isinstance(entries, list) else [None]
        systems[name] = [value for value in values if value is not None]
        if len(systems[name]) < len(values):
            return {}
    return systems


def _value(entry: Any, metric: str) -> Optional[float]:
    if isinstance(entry, dict):
        named = {str(key).lower(): value for key, value in entry.items()}
        entry = named.get(metric.lower(), named.get("comet", named.get("score")))
    return _number(entry) if isinstance(entry, (int, float)) and not isinstance(entry, bool) else None


def _number(text: Any) -> Optional[float]:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _from_lines(content: str) -> Dict[str, List[float]]:
    header, *rows = [line.split("\t") for line in content.splitlines() if line] or [[]]
    if any(len(row) != len(header) for row in rows):
        return {}
    systems: Dict[str, List[float]] = {}
    for name, text in (pair for row in rows for pair in zip(header, row)):
        value = _number(text)
        if value is None:
            return {}
        systems.setdefault(name, []).append(value)
    return systems


def scores_of(given: SegmentScores, labels: Mapping[str, Optional[str]], sentences: int) -> Dict[str, List[float]]:
    """The scores of each system.

    Args:
        given: of a file
        labels: {label: path of the translations or None}
        sentences: of the corpus

    Raises:
        OptionError: a system is not in the file or has another number of scores
    """
    option = f"--scores {given.metric}={given.path}"
    found = {}
    for label, path in labels.items():
        wanted = [label, f"{label}.txt", *([] if path is None else [path, Path(path).name])]
        names = [one for name in wanted for one in given.systems if one == name or one.endswith(f"/{name}")]
        if not names:
            raise OptionError(f"{option}: has no scores of {label}; it has {', '.join(given.systems)}")
        found[label] = given.systems[names[0]]
        if len(found[label]) != sentences:
            raise OptionError(f"{option}: has {len(found[label])} scores of {label}; there are {sentences} sentences")
    return found
