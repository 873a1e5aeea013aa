"""Scores of sentences that another program computed, such as COMET's, as a column beside BLEU.

A file is the JSON of ``comet-score --to_json FILE``, ``{"soft.txt": [{"mt": ..., "COMET": 0.81}, ...], ...}``, or has
numbers in place of the objects. A system is found by its label or by the name of its file.
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
        content = json.loads(Path(path).read_text(encoding="utf-8-sig"))
        systems = {name: [_value(entry, metric) for entry in entries] for name, entries in content.items()}
        if not systems or not all(systems.values()):
            raise ValueError
    except OSError as error:
        raise OptionError(f"--scores {text}: cannot be read: {error.strerror or error}") from None
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise OptionError(
            f"--scores {text}: has no scores of {metric}; must be the JSON of comet-score --to_json, or JSON of a list "
            "of numbers for each system"
        ) from None
    return SegmentScores(metric, path, systems)


def _value(entry: Any, metric: str) -> float:
    """The score of a sentence; raises ``ValueError`` without one."""
    if isinstance(entry, dict):
        named = {str(key).lower(): value for key, value in entry.items()}
        entry = named.get(metric.lower(), named.get("comet", named.get("score")))
    if type(entry) not in (int, float) or not math.isfinite(entry):
        raise ValueError
    return float(entry)


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
