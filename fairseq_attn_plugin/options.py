"""Options of fairseq's dataclasses: how a field is declared, and how its value is checked."""

import argparse
import ast
from dataclasses import field, fields
from typing import Any, Callable, Collection, Dict, List

from .errors import OptionError

BOOLEANS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def option(default: Any, text: str, file: bool = False, before: Any = None) -> Any:
    """A field of a dataclass that becomes a command-line option.

    Args:
        default: its value where the user gives none
        text: its help
        file: whether the value names a file that is read when training starts and becomes part of the checkpoint;
            such an option is left out when a checkpoint is loaded
        before: what a checkpoint has that was written before the option was there, if the default may change
    """
    changed = {} if before is None else {"before": before}
    return field(default=default, metadata={"help": text, "file": file, **changed})


def flag(name: str) -> str:
    """The command-line flag of an option: ``latent_topk`` gives ``--latent-topk``."""
    return "--" + name.replace("_", "-")


def file_options(config: Any) -> List[str]:
    """The names of the fields of a dataclass (or of an instance) that were declared with ``file=True``."""
    return [item.name for item in fields(config) if item.metadata.get("file")]


def or_default(value: Any, default: Any) -> Any:
    """``value``, or ``default`` where it is None."""
    return default if value is None else value


def earlier_values(config: Any) -> Dict[str, Any]:
    """What checkpoints have that were written before an option was there: the fields declared with ``before``."""
    return {item.name: item.metadata["before"] for item in fields(config) if "before" in item.metadata}


def at_least(args: argparse.Namespace, **bounds: float) -> None:
    """Raises OptionError, ``--name VALUE: must be at least BOUND``, for a lower value, and for a whole number that no
    machine counts to; None is no value."""
    for name, bound in bounds.items():
        value = getattr(args, name)
        if value is not None and not value >= bound:  # this also refuses nan
            raise OptionError(f"{flag(name)} {value}: must be at least {bound}")
        if isinstance(value, int) and value >= 2**63:
            raise OptionError(f"{flag(name)} {value}: must be less than 2^63")


def check_unread(args: argparse.Namespace, reason: str, *adders: Callable[[Any], Any]) -> None:
    """Raises OptionError, ``--name VALUE: REASON``, if a user has set an option that ``adders`` add to a parser."""
    parser = argparse.ArgumentParser()
    for add in adders:
        add(parser)
    for name, default in vars(parser.parse_args([])).items():
        value = getattr(args, name)
        if value != default and name not in getattr(args, "of_folder", ()):
            raise OptionError(f"{' '.join([flag(name), *([] if value is True else [str(value)])])}: {reason}")


def need(right: bool, config: Any, name: str, what: str) -> None:
    """Raises OptionError, ``--name VALUE: must be WHAT``, unless ``right``."""
    if not right:
        raise OptionError(f"{flag(name)} {getattr(config, name)}: must be {what}")


def need_one_of(config: Any, **choices: Collection[str]) -> None:
    """Raises OptionError, ``--name VALUE: must be one of ...``, for an option that is none of its choices."""
    for name, known in choices.items():
        need(getattr(config, name) in known, config, name, f"one of {', '.join(known)}")


# fairseq's parsers of such strings call eval(), and a configuration may come from an untrusted checkpoint.
def parse_boolean(option: str, value: Any) -> bool:
    """True or False from a string such as ``True``, ``yes`` or ``0``.

    Raises:
        OptionError: any other value; the message names ``option``
    """
    if str(value).lower() not in BOOLEANS:
        raise OptionError(f"{option} {value}: must be True or False")
    return BOOLEANS[str(value).lower()]


def parse_integers(option: str, value: Any) -> List[int]:
    """Integers from a string such as ``10000,50000``.

    Raises:
        OptionError: any other value; the message names ``option``
    """
    try:
        return [int(item) for item in str(value).strip("[]()").split(",")]
    except ValueError:
        raise OptionError(f"{option} {value}: must be integers separated by commas, as in 10000,50000") from None


def literal(text: str) -> Any:
    """The value that a text is in Python's notation; None where it is none."""
    try:
        return ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):  # the last two: nested too deep
        return None


def parse_overrides(text: str) -> Dict[str, Any]:
    """The dictionary of ``--model-overrides``.

    Raises:
        OptionError: ``text`` is not a dictionary of names in Python's notation
    """
    value = literal(text)
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise OptionError(f"--model-overrides {text}: must be a dictionary, as in \"{{'latent_topk': 5}}\"")
    return value
