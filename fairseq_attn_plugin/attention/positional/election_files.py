"""Reads the file of an election, from which Gaussian attention takes its rule, sigma, mean and ratio."""

from __future__ import annotations

from typing import Any, Dict, NamedTuple

from ...errors import OptionError
from .files import number, read_json
from .windows import Rule

__all__ = ["ELECTION_FORMAT", "MOST_WORDS", "Recommendation", "read_recommendation"]

ELECTION_FORMAT = "fairseq_attn_plugin election 1"
ELECTION_COMMAND = "fairseq-attn election"
OPTION = "--gaussian-election"
# The largest ratio. A row of weights is computed for each of ratio * n target words.
MOST_WORDS = 1000


class Recommendation(NamedTuple):
    """What an election recommends."""

    rule: Rule
    sigma: float
    mean: float
    ratio: float


def read_recommendation(path: str, source_dictionary: Any, target_dictionary: Any) -> Recommendation:
    """The recommendation of the file ``path``, which must have been made for these dictionaries.

    Raises:
        OptionError: no such file, another format or vocabulary, or values out of range
    """
    content = read_json(OPTION, path, ELECTION_FORMAT, ELECTION_COMMAND, source_dictionary, target_dictionary)
    recommended = content.get("recommended")
    name = str(recommended.get("rule")) if isinstance(recommended, dict) else "None"
    rule = Rule.parse(name, f"{OPTION} {path}: the rule")
    sigma = number(OPTION, path, content, "recommended", "sigma")
    mean = number(OPTION, path, content, "recommended", "mean")
    ratio = number(OPTION, path, content, "length_ratio")
    _check_mean_window(path, content, name)
    if sigma <= 0:
        raise OptionError(f"{OPTION} {path}: its sigma is {sigma}, must be above 0")
    if not 0 < ratio <= MOST_WORDS:
        raise OptionError(f"{OPTION} {path}: its length_ratio is {ratio}, must be above 0 and at most {MOST_WORDS}")
    return Recommendation(rule, sigma, mean, ratio)


def _check_mean_window(path: str, content: Dict[str, Any], rule: str) -> None:
    """Refuses a rule whose window had only the centre in every sentence of the election."""
    measured = content.get("rules")
    for entry in measured if isinstance(measured, list) else ():
        if isinstance(entry, dict) and entry.get("rule") == rule and "mean_k" in entry:
            k = number(OPTION, path, entry, "mean_k")
            if k <= 0:
                raise OptionError(
                    f"{OPTION} {path}: k of its rule {rule} is {k:g} for all sentences, must be at least 1 for some; "
                    "hold the election on longer sentences, or leave it out and give --gaussian-rule"
                )
