"""The command line of the recipes: name, stages, options of fairseq-train."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, List, Mapping, Optional, Sequence

from ..errors import wants_traceback
from . import datasets
from .commands import Shell, ended_by_sigterm
from .errors import OptionError
from .settings import PACKAGE, Variables

__all__ = ["main", "manual", "manual_of", "open_recipe"]

USAGE = "fairseq-attn recipe NAME [STAGE...|all] [--dry-run] [-- options of fairseq-train]"


@dataclass(frozen=True)
class Arguments:
    """Arguments after the name of a recipe: stages in the given order, and options of fairseq-train."""

    stages: Sequence[str]
    dry_run: bool
    extra: Sequence[str]


def parse(words: Sequence[str], stages: Sequence[str]) -> Arguments:
    """The arguments of a recipe with these stages; without a stage all of them run.

    Raises:
        OptionError: a word is neither a stage nor an option
    """
    end = words.index("--") if "--" in words else len(words)
    chosen: List[str] = []
    dry_run = False
    for word in words[:end]:
        if word == "--dry-run":
            dry_run = True
        elif word == "all":
            chosen += stages
        elif word in stages:
            chosen.append(word)
        else:
            raise OptionError(
                f"unknown stage or option '{word}': expected {', '.join(stages)}, all, --dry-run, or -- followed by "
                "fairseq-train options"
            )
    return Arguments(chosen or list(stages), dry_run, list(words[end + 1 :]))


def manual_of(name: str) -> Path:
    """The file with the manual of a recipe."""
    return PACKAGE / "recipes" / "manuals" / f"{name}.txt"


def manual(name: str) -> str:
    """The manual of a recipe."""
    return manual_of(name).read_text(encoding="utf-8")


def open_recipe(
    name: str,
    environment: Mapping[str, str],
    extra: Sequence[str] = (),
    dry_run: bool = False,
) -> Any:
    """A recipe with its settings: an object with ``stages()`` and, for one model, ``train_command()``.

    Args:
        name: of the recipe
        environment: the variables
        extra: options of fairseq-train
        dry_run: whether commands are shown instead of run, as with ``DRY_RUN=1``

    Raises:
        OptionError: there is no such recipe, or a setting is wrong
    """
    if name not in datasets.names():
        raise OptionError(f"unknown recipe '{name}': expected one of {', '.join(datasets.names())}")
    recipe = datasets.load(name)
    values = {**environment, **({"DRY_RUN": "1"} if dry_run else {})}
    variables = Variables(values, recipe.all_defaults)
    return recipe.open(variables, extra, Shell(name, variables.flag("DRY_RUN")))


def main(words: Optional[Sequence[str]] = None, environment: Optional[Mapping[str, str]] = None) -> int:
    """Runs a recipe and returns the exit status; a user error is one line on stderr.

    Args:
        words: name of the recipe and its arguments (default: of the process)
        environment: the variables (default: of the process)
    """
    words = list(sys.argv[1:] if words is None else words)
    name = words[0] if words else ""
    if name in ("", "-h", "--help"):
        print(f"usage: {USAGE}\nrecipes: {', '.join(datasets.names())}")
        return 0 if name else 2
    try:
        with ended_by_sigterm():
            _run(name, words[1:], os.environ if environment is None else environment)
    except (OptionError, OSError) as error:
        if wants_traceback():
            raise
        sys.stdout.flush()
        print(f"{name}: " + " ".join(str(error).split()), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _run(name: str, words: List[str], environment: Mapping[str, str]) -> None:
    before = words[: words.index("--")] if "--" in words else words
    if name in datasets.names() and ("-h" in before or "--help" in before):
        print(manual(name), end="")
        return
    arguments = Arguments((), False, ())
    if name in datasets.names():
        arguments = parse(words, datasets.load(name).stages)
    run = open_recipe(name, environment, arguments.extra, arguments.dry_run)
    stages = run.stages()
    for stage in arguments.stages:
        stages[stage]()
