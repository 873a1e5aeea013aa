"""Mechanisms of installed packages.

A package offers a mechanism by an entry point of the group ``fairseq_attn_plugin.attention`` whose value is the module
that registers it:

    [project.entry-points."fairseq_attn_plugin.attention"]
    distance = "distance_attention"
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Iterable

from .parts import explain_unknown

__all__ = ["GROUP", "load_entry_points"]

logger = logging.getLogger(__name__)

GROUP = "fairseq_attn_plugin.attention"


def _found() -> Iterable[Any]:
    every: Any = entry_points()
    # Python 3.8 and 3.9 return a dictionary.
    found = every.select(group=GROUP) if hasattr(every, "select") else every.get(GROUP, ())
    return {(entry.name, entry.value): entry for entry in found}.values()


def load_entry_points() -> None:
    """Imports the modules of all entry points of the group.

    A module that cannot be imported costs a warning of one line, and the message about an unknown ``--attention``
    repeats it: a broken package must not stop a training that does not need it.
    """
    for entry in _found():
        try:
            # Not entry.load(): the package may be the one that is being imported and that has imported us.
            import_module(entry.value.partition(":")[0].strip())
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            line = f"the entry point {entry.name} = {entry.value} ({GROUP}) cannot be loaded: {text}"
            logger.warning(line)
            explain_unknown(line)
