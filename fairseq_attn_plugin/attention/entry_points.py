"""Mechanisms, scores, normalisers, biases and objectives of installed packages.

A package offers them by an entry point of the group ``fairseq_attn_plugin`` whose value is the module that registers
them:

    [project.entry-points.fairseq_attn_plugin]
    distance = "distance_attention"

The modules are imported when this package registers itself, thus with fairseq and no earlier: a command that only reads
records imports none of them. An installed package is trusted, as all that is installed; ``--user-dir`` is for code that
is not.
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Iterable

from .part_registry import explain_unknown

__all__ = ["GROUP", "load_entry_points"]

logger = logging.getLogger(__name__)

GROUP = "fairseq_attn_plugin"
EARLIER = "fairseq_attn_plugin.attention"  # the group's first name


def _found() -> Iterable[EntryPoint]:
    every = entry_points()
    found = [entry for group in (GROUP, EARLIER) for entry in every.select(group=group)]
    return {(entry.name, entry.value): entry for entry in found}.values()


def load_entry_points() -> None:
    """Imports the modules of all entry points of the group.

    A module that cannot be imported costs a warning of one line, and the message about an unknown ``--attention``
    repeats it, as that about any unknown part: a broken package must not stop a training that does not need it.
    """
    for entry in _found():
        try:
            # Not entry.load(): the package may be the one that is being imported and that has imported us.
            import_module(entry.value.partition(":")[0].strip())
        except (Exception, SystemExit) as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())
            line = f"the entry point {entry.name} = {entry.value} ({entry.group}) cannot be loaded: {text}"
            logger.warning(line)
            explain_unknown(line)
