"""Reads the JSON files that mechanisms take values from."""

from __future__ import annotations

import json
import math
from typing import Any, Dict

from fairseq_attn_plugin.text.vocabulary import check_vocabulary

from ...errors import OptionError

__all__ = ["number", "read_json"]


def read_json(
    option: str, path: str, kind: str, maker: str, source_dictionary: Any, target_dictionary: Any
) -> Dict[str, Any]:
    """The content of a file of the format ``kind`` that was made for these dictionaries.

    Args:
        option: the option that names the file, for messages
        path: the file
        kind: what its key ``format`` must say
        maker: the command that writes such files, for messages
        source_dictionary, target_dictionary: the task's

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


def number(option: str, path: str, content: Dict[str, Any], *keys: str) -> float:
    """A finite number of a file, ``content[keys[0]][keys[1]]...``.

    Raises:
        OptionError: it is missing or not a number
    """
    value: Any = content
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise OptionError(f"{option} {path}: its {'.'.join(keys)} is {value!r}, must be a number")
    return float(value)
