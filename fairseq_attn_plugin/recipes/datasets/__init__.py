"""The recipes by name. A file is a recipe: its corpus, its sizes, and the options of its training."""

import importlib
import pkgutil
from typing import Any, List

__all__ = ["load", "names"]


def names() -> List[str]:
    """Names of all recipes."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def load(name: str) -> Any:
    """The recipe of that name: a ``TranslationRecipe``, ``ElectionRecipe`` or ``DocumentRecipe``."""
    return importlib.import_module(f"{__name__}.{name}").RECIPE
