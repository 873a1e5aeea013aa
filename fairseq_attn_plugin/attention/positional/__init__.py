"""Mechanisms whose weights depend on positions alone, or on positions and the votes of an agent: one file each."""

from ..part_registry import import_all

import_all(__name__, __path__)
