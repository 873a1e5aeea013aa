"""Configurations from hydra in half the time: each option is parsed once, and no command copies hydra's store.

fairseq hands hydra more than 300 options for every command, most of them the same, and hydra parses each by a grammar
and copies its store of all architectures. Importing this module changes hydra in this process.
"""

import copy
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

from hydra._internal import config_repository
from hydra.core.override_parser.overrides_parser import OverridesParser

_parse = OverridesParser.parse_rule


@lru_cache(maxsize=None)
def _parsed(text: str, rule: str) -> Any:
    return _parse(OverridesParser.create(), text, rule)


def parse_rule(self: OverridesParser, text: str, rule: str) -> Any:
    return copy.copy(_parsed(text, rule))  # the caller writes into it


OverridesParser.parse_rule = parse_rule
config_repository.copy = SimpleNamespace(deepcopy=lambda store: store)
