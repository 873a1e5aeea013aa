"""The versions of packages, for what has to be made again."""

from __future__ import annotations

import importlib
from typing import Dict

__all__ = ["versions_of"]


def versions_of(*packages: str) -> Dict[str, str]:
    """{package: version} of packages that are installed."""
    return {name: str(importlib.import_module(name).__version__) for name in packages}
