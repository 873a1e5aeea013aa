"""Settings of a recipe: environment variables with defaults, checked one by one."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Collection, Dict, List, Mapping, Optional, Sequence, Tuple

from .errors import OptionError

__all__ = [
    "COMMON",
    "PACKAGE",
    "CommonSettings",
    "Variables",
    "check_extra",
    "given",
    "is_number",
    "last_value",
    "read_common",
]

PACKAGE = Path(__file__).resolve().parents[1]

# defaults of the variables of every recipe
COMMON = {
    "DRY_RUN": "0",
    "OUT": "",
    "DATA": "",
    "SEED": "1",
    "SPLIT": "test",
    "DEVICE": "auto",
    "JOBS": str(os.cpu_count() or 1),
}


def is_number(text: str) -> bool:
    return text.isascii() and text.isdigit()


class Variables:
    """Environment variables with the defaults of a recipe. An empty variable counts as unset.

    Args:
        values: the environment
        defaults: of all variables of the recipe; others are not read
    """

    def __init__(self, values: Mapping[str, str], defaults: Mapping[str, str]):
        self.values: Dict[str, str] = {name: values.get(name) or default for name, default in defaults.items()}

    def text(self, name: str) -> str:
        return self.values[name]

    def words(self, name: str) -> List[str]:
        return self.text(name).split()

    def flag(self, name: str) -> bool:
        return self.text(name) == "1"

    def number(self, name: str, least: int = 0, meaning: str = "") -> int:
        """A whole number of at least ``least``; ``meaning`` is added to the message.

        Raises:
            OptionError: the value is something else
        """
        text = self.text(name)
        if not is_number(text) or int(text) < least:
            above = {0: "", 1: " above 0"}.get(least, f" of {least} or more")
            raise OptionError(f"{name}={text}: must be a whole number{above}{meaning}")
        return int(text)

    def choice(self, name: str, choices: Sequence[str]) -> str:
        """One of ``choices``.

        Raises:
            OptionError: the value is something else
        """
        text = self.text(name)
        if text not in choices:
            expected = ", ".join(choices[:-1]) + " or " + choices[-1]
            raise OptionError(f"{name}={text} is unknown: expected {expected}")
        return text

    def several(self, name: str, choices: Sequence[str]) -> List[str]:
        """Words of ``choices``.

        Raises:
            OptionError: a word is something else
        """
        words = self.words(name)
        for word in words:
            if word not in choices:
                raise OptionError(f"{name}: {word} is unknown: expected any of {', '.join(choices)}")
        return words

    def direction(self, first: str, second: str) -> None:
        """Completes SRC and TGT: the missing one follows from the other, and SRC is ``first`` if both are missing."""
        values = self.values
        values["SRC"] = values["SRC"] or (second if values["TGT"] == first else first)
        values["TGT"] = values["TGT"] or (second if values["SRC"] == first else first)

    def path(self, name: str) -> Optional[Path]:
        """An absolute path; None if the variable is empty."""
        text = self.text(name)
        return Path(os.path.abspath(text)) if text else None


@dataclass(frozen=True)
class CommonSettings:
    """Settings that every recipe has.

    Attributes:
        out: folder for all files
        data: folder with the corpus; None if it is downloaded
        at_home: content of such a folder, for messages
        seed: of the training
        split: the split that is translated or classified, test or valid
        device: auto, cpu or cuda
        jobs: number of processes of the preparation
    """

    out: Path
    data: Optional[Path]
    at_home: str
    seed: int
    split: str
    device: str
    jobs: int


def read_common(variables: Variables, folder: str, at_home: str) -> CommonSettings:
    """The common settings; ``folder`` is the default of OUT below ``out/`` of the current folder.

    Raises:
        OptionError: a variable has a wrong value
    """
    data = variables.path("DATA")
    if data is not None and not data.is_dir():
        raise OptionError(f"DATA={variables.text('DATA')} is not a folder: expected one with {at_home}")
    return CommonSettings(
        out=variables.path("OUT") or Path.cwd() / "out" / folder,
        data=data,
        at_home=at_home,
        seed=variables.number("SEED"),
        split=variables.choice("SPLIT", ("valid", "test")),
        device=variables.choice("DEVICE", ("auto", "cpu", "cuda")),
        jobs=variables.number("JOBS", least=1),
    )


def given(extra: Sequence[str], *names: str) -> bool:
    """Whether one of the options ``names`` is among those after ``--``."""
    return any(option.partition("=")[0] in names for option in extra)


def last_value(extra: Sequence[str], name: str) -> Optional[str]:
    """The value of the option ``name`` after ``--``, the last one if there are several; None without the option."""
    found = None
    for option, following in zip(extra, [*extra[1:], ""]):
        key, equals, value = option.partition("=")
        if key == name:
            found = value if equals else following
    return found


def check_extra(extra: Sequence[str], chosen: Collection[Tuple[Tuple[str, ...], str]]) -> None:
    """Raises ``OptionError`` if the options after ``--`` contain one that a variable of the recipe chooses.

    Args:
        extra: the options
        chosen: names of options, and what is said about them
    """
    for option in extra:
        for names, message in chosen:
            if option.partition("=")[0] in names:
                raise OptionError(f"{option}: {message}")
