"""Reads the files of elections: rule, sigma, mean and ratio of Gaussian attention, and other values in JSON."""

import json
import math
from typing import Any, Dict, NamedTuple

from fairseq_attn_plugin.text.vocabulary import check_vocabulary

from ...errors import OptionError
from .windows import MOST_POSITIONS, Rule

ELECTION_FORMAT = "fairseq_attn_plugin election 1"
ELECTION_COMMAND = "fairseq-attn election"
OPTION = "--gaussian-election"
# The largest ratio, and the inverse of the smallest. A row of weights is computed for each of ratio * n target words.
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
    try:
        recommended, ratio = content["recommended"], float(content["length_ratio"])
        sigma, mean = float(recommended["sigma"]), float(recommended["mean"])
        name = str(recommended["rule"])
    except (KeyError, TypeError, ValueError, OverflowError):
        raise OptionError(f"{OPTION} {path}: lacks values; {ELECTION_COMMAND} writes whole files") from None
    rule = Rule.parse(name, f"{OPTION} {path}: the rule")
    if not (0 < sigma < math.inf and abs(mean) <= MOST_POSITIONS and 1 / MOST_WORDS <= ratio <= MOST_WORDS):
        raise OptionError(
            f"{OPTION} {path}: sigma {sigma}, mean {mean} and length_ratio {ratio} must be numbers, the first above 0, "
            f"the second at most {MOST_POSITIONS}, and the last from {1 / MOST_WORDS} to {MOST_WORDS}"
        )
    return Recommendation(rule, sigma, mean, ratio)


def read_json(
    option: str, path: str, kind: str, maker: str, source_dictionary: Any, target_dictionary: Any
) -> Dict[str, Any]:
    """The content of the file of an ``option`` that the command ``maker`` wrote in the format ``kind`` for these
    dictionaries.

    Raises:
        OptionError: no such file, not JSON, another format or vocabulary
    """
    try:
        with open(path, encoding="utf-8-sig") as stream:
            content = json.load(stream)
    except FileNotFoundError:
        raise OptionError(f"{option} {path}: no such file; {maker} writes one") from None
    except OSError as error:
        raise OptionError(f"{option} {path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{option} {path}: is not JSON ({error}); {maker} writes such files") from None
    found = content.get("format") if isinstance(content, dict) else None
    if found != kind:
        raise OptionError(f"{option} {path}: is of the format {found!r}, must be {kind!r}, as {maker} writes it")
    for side, dictionary in (("source", source_dictionary), ("target", target_dictionary)):
        check_vocabulary(content.get(f"{side}_vocabulary"), dictionary, option, path, side)
    return content
