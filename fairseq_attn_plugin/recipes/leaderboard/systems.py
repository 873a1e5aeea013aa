"""The systems of a leaderboard: ``systems.yaml``, and a file of the user with lines of the same form.

A system is ``NAME: settings``: words such as ``ARCH=lstm_soft`` set variables of the recipe, all other words are
options of fairseq-train.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional, Sequence

import yaml

from ..errors import OptionError
from ..translation import model

__all__ = ["OWN", "SystemSettings", "read_systems"]

OWN = Path(__file__).with_name("systems.yaml")
# what a system may set; the leaderboard chooses the rest
VARIABLES = (*model.DEFAULTS, "BPE", "BPE_SIZE", "CUT", "LONGEST", "GENERATE_OPTIONS")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*")
_VARIABLE = re.compile(r"([A-Z][A-Z_]*)=(.*)", re.DOTALL)


class SystemSettings(NamedTuple):
    """A system: variables of the recipe, and options of fairseq-train."""

    name: str
    variables: Dict[str, str]
    options: Sequence[str]


def read_systems(path: Optional[Path] = None) -> Dict[str, SystemSettings]:
    """The systems by name: those of the package, and those of ``path``, which win.

    Raises:
        OptionError: the file cannot be read, or has a line that is no system; name and file are given
    """
    found: Dict[str, SystemSettings] = {}
    for file in (OWN, path):
        if file is not None:
            for name, text in _load(file).items():
                found[str(name)] = _system(file, str(name), text)
    return found


def _load(file: Path) -> Dict[Any, Any]:
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise OptionError(f"SYSTEMS_FILE={file} cannot be read: {error}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise OptionError(f"SYSTEMS_FILE={file} is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise OptionError(f"SYSTEMS_FILE={file} has no systems: expected lines 'NAME: ARCH=lstm_soft --option value'")
    return content


def _system(file: Path, name: str, text: Any) -> SystemSettings:
    if not _NAME.fullmatch(name) or not isinstance(text, str):
        raise OptionError(f"{file}: '{name}: {text}' is no system: expected 'NAME: ARCH=lstm_soft --option value'")
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise OptionError(f"{file}: {name}: {error}") from None
    variables: Dict[str, str] = {}
    options = []
    for word in words:
        match = _VARIABLE.fullmatch(word)
        if match is None:
            options.append(word)
        elif match[1] in VARIABLES:
            # from the file, wherever the recipe is called
            variables[match[1]] = str(file.parent.resolve() / match[2]) if match[1] == "USER_DIR" else match[2]
        else:
            raise OptionError(f"{file}: {name}: a system cannot set {match[1]}: expected {', '.join(VARIABLES)}")
    if "ARCH" not in variables:
        raise OptionError(f"{file}: {name}: has no architecture: expected ARCH=lstm_soft or another")
    return SystemSettings(name, variables, options)
