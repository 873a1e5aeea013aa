"""The recipes by name. A file is a recipe: its corpus, its sizes, and the options of its training."""

import importlib
import pkgutil
from typing import List

from ..recipe import Recipe

__all__ = ["load", "names"]


def names() -> List[str]:
    """Names of all recipes."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Recipe:
    """The recipe of that name."""
    return importlib.import_module(f"{__name__}.{name}").RECIPE
