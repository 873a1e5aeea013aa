"""What all recipes are: a name, a corpus, and the defaults of environment variables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, ClassVar, Dict, Sequence, Tuple

from .commands import Shell
from .settings import Variables

__all__ = ["Recipe"]


@dataclass(frozen=True)
class Recipe:
    """A recipe. Each kind of recipe has a class of its own, with its stages and its settings.

    Attributes:
        name: of the recipe and its script
        defaults: of its environment variables, where they differ from the common ones
        corpus: makes the description from the variables
        stages: their names, in order
        common: defaults of the environment variables of this kind of recipe
    """

    name: str
    defaults: Dict[str, str]
    corpus: Callable[[Variables], Any]

    stages: ClassVar[Tuple[str, ...]]
    common: ClassVar[Dict[str, str]]

    @property
    def all_defaults(self) -> Dict[str, str]:
        """Defaults of all its environment variables."""
        return {**self.common, **self.defaults}

    def open(self, variables: Variables, extra: Sequence[str], shell: Shell) -> Any:
        """The recipe with these settings.

        Args:
            variables: environment variables with their defaults
            extra: further options of fairseq-train
            shell: runs or shows the commands

        Raises:
            OptionError: a variable has a wrong value
        """
        raise NotImplementedError
