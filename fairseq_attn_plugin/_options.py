"""Options of fairseq's dataclasses, and what they may be."""

from dataclasses import field
from typing import Any

from .errors import OptionError

__all__ = ["need", "option"]


def option(default: Any, text: str) -> Any:
    """A field of a dataclass, with its help."""
    return field(default=default, metadata={"help": text})


def need(right: bool, config: Any, name: str, what: str) -> None:
    """Raises OptionError, ``--name VALUE: must be WHAT``, unless ``right``."""
    if not right:
        raise OptionError(f"--{name.replace('_', '-')} {getattr(config, name)}: must be {what}")
